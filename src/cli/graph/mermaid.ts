// The graph in Mermaid's language, as Markdown viewers draw it. Pure.

import { notesOf, shortName } from "./notes.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"

/** Mermaid knows HTML entities by number inside of quotes. */
const quoted = (text: string): string => `"${text.replace(/["&<>#;]/g, (char) => `#${char.codePointAt(0)};`)}"`

export const mermaidGraph = (workflow: CompiledWorkflow): string[] => {
  const lines = ["flowchart LR"]
  const groups = new Set(workflow.nodes.map((node) => node.group))
  const add = (group: number | null, indent: string): void => {
    workflow.nodes.forEach((node, i) => {
      if (node.group !== group || node.hook !== null) return
      const label = quoted([shortName(node), ...notesOf(workflow, i)].join(" · "))
      if (!groups.has(i)) {
        lines.push(`${indent}n${i}[${label}]`)
        return
      }
      lines.push(`${indent}subgraph n${i} [${label}]`)
      add(i, `${indent}  `)
      lines.push(`${indent}end`)
    })
  }
  add(null, "  ")
  workflow.nodes.forEach((node, i) => {
    for (const up of node.upstream) lines.push(`  n${up} --> n${i}`)
  })
  workflow.nodes.forEach((node, i) => {
    if (node.hook !== null) lines.push(`  n${i}([${quoted(node.name)}])`)
  })
  return lines
}
