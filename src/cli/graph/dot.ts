// The graph in the language of Graphviz. A group is a cluster that holds a node of its own, to which its edges lead. Pure.

import { notesOf, shortName } from "./notes.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"

const quoted = (text: string): string => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`

export const dotGraph = (workflow: CompiledWorkflow): string[] => {
  const lines = [`digraph ${quoted(workflow.name)} {`, "  rankdir=LR", "  node [shape=box]"]
  const groups = new Set(workflow.nodes.map((node) => node.group))
  const add = (group: number | null, indent: string): void => {
    workflow.nodes.forEach((node, i) => {
      if (node.group !== group) return
      const label = quoted([shortName(node), ...notesOf(workflow, i)].join("\n")).replaceAll("\n", "\\n")
      const style = node.hook === null ? "" : ", style=dashed"
      if (!groups.has(i)) {
        lines.push(`${indent}n${i} [label=${label}${style}]`)
        return
      }
      lines.push(`${indent}subgraph cluster_${i} {`, `${indent}  n${i} [label=${label}, shape=plaintext]`)
      add(i, `${indent}  `)
      lines.push(`${indent}}`)
    })
  }
  add(null, "  ")
  workflow.nodes.forEach((node, i) => {
    for (const up of node.upstream) lines.push(`  n${up} -> n${i}`)
  })
  return [...lines, "}"]
}
