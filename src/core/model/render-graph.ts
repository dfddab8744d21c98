// Drawings of a compiled workflow: plain text for a terminal, mermaid and dot for documents. Groups are boxes; hooks are listed apart.

import { groupMembers, isGroup, shortName } from "./task-path.ts"
import { type CompiledWorkflow, type HookEvent, HOOK_EVENTS, type Node } from "./workflow.ts"

export const GRAPH_FORMATS = ["text", "mermaid", "dot"] as const
export type GraphFormat = (typeof GRAPH_FORMATS)[number]

export const renderGraph = (workflow: CompiledWorkflow, format: GraphFormat): string => {
  switch (format) {
    case "text":
      return renderText(workflow)
    case "mermaid":
      return renderMermaid(workflow)
    case "dot":
      return renderDot(workflow)
    default:
      return format satisfies never
  }
}

// -- shared ----------------------------------------------------------------------------------------------------------------------

const hooksOf = (workflow: CompiledWorkflow, hook: HookEvent): number[] =>
  workflow.nodes.flatMap((node, i) => (node.hook === hook ? [i] : []))

/** Lists what distinguishes the task from a plain one: `× discover.files`, `if params.limit > 10`. */
const remarksOf = (node: Node): string[] =>
  [
    ...(node.executor === "process" || isGroup(node) ? [] : [node.executor]),
    ...(node.fan === undefined ? [] : [`× ${node.fan.reference}`]),
    ...(node.rule === "all_success" ? [] : [node.rule]),
    ...(node.if === undefined ? [] : [`if ${node.if}`]),
  ].map(oneLine)

/** Removes control characters: an expression may contain any text, and a terminal shows it. */
const oneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, " ")

/** Syntax of a format in which groups contain their tasks. */
interface BoxSyntax {
  openGroup(i: number, label: string): string[]
  closeGroup: string
  task(i: number, label: string): string
}

const drawBoxes = (workflow: CompiledWorkflow, { openGroup, closeGroup, task }: BoxSyntax): string[] => {
  const lines: string[] = []
  const drawGroup = (group: number | null, indent: string): void => {
    for (const i of groupMembers(workflow, group)) {
      const node = workflow.nodes[i]!
      const label = [shortName(node), ...remarksOf(node)].join("\n")
      if (!isGroup(node)) {
        lines.push(indent + task(i, label))
        continue
      }
      lines.push(...openGroup(i, label).map((line) => indent + line))
      drawGroup(i, `${indent}  `)
      lines.push(indent + closeGroup)
    }
  }
  drawGroup(null, "  ")
  return lines
}

// -- text ------------------------------------------------------------------------------------------------------------------------

/** Draws layer by layer: every task is below all that it waits for, with the names of those at its right. */
const renderText = (workflow: CompiledWorkflow): string => {
  const lines = [workflow.name]
  const drawGroup = (group: number | null, indent: string): void => {
    const members = groupMembers(workflow, group)
    const width = Math.min(32, Math.max(0, ...members.map((i) => shortName(workflow.nodes[i]!).length)))
    for (const [depth, layer] of layersOf(workflow, members).entries()) {
      for (const [position, i] of layer.entries()) {
        const node = workflow.nodes[i]!
        const layerNumber = position === 0 ? String(depth + 1).padStart(2) : "  "
        const name = `${shortName(node)}${isGroup(node) ? "/" : ""}`.padEnd(width + 1)
        lines.push(`${indent}${layerNumber}  ${name} ${notesOf(workflow, node)}`.trimEnd())
        if (isGroup(node)) drawGroup(i, `${indent}    `)
      }
    }
  }
  drawGroup(null, "")
  for (const hook of HOOK_EVENTS) {
    for (const i of hooksOf(workflow, hook)) {
      const node = workflow.nodes[i]!
      lines.push(` ↳  ${node.name} ${notesOf(workflow, node)}`.trimEnd())
    }
  }
  return `${lines.join("\n")}\n`
}

const notesOf = (workflow: CompiledWorkflow, node: Node): string => {
  const upstream = node.upstream.map((up) => shortName(workflow.nodes[up]!))
  const arrow = upstream.length === 0 ? [] : [`← ${shorten(upstream)}`]
  return [...arrow, ...remarksOf(node).map((remark) => `(${remark})`)].join(" ")
}

const shorten = (names: string[]): string =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 5).join(", ")} and ${names.length - 5} more`

/** Puts each node one layer below the lowest of its upstreams. */
const layersOf = (workflow: CompiledWorkflow, members: readonly number[]): number[][] => {
  const depth = new Map<number, number>()
  const left = new Map(members.map((i) => [i, workflow.nodes[i]!.upstream.length]))
  const ready = members.filter((i) => left.get(i) === 0)
  for (let at = 0; at < ready.length; at++) {
    const node = workflow.nodes[ready[at]!]!
    depth.set(
      ready[at]!,
      node.upstream.reduce((max, up) => Math.max(max, (depth.get(up) ?? 0) + 1), 0),
    )
    for (const down of node.downstream) {
      const count = left.get(down)! - 1
      left.set(down, count)
      if (count === 0) ready.push(down)
    }
  }
  const layers: number[][] = []
  for (const i of members) (layers[depth.get(i) ?? 0] ??= []).push(i)
  return layers
}

// -- mermaid -----------------------------------------------------------------------------------------------------------------------

const renderMermaid = (workflow: CompiledWorkflow): string => {
  const lines = [
    "flowchart TD",
    ...drawBoxes(workflow, {
      openGroup: (i, label) => [`subgraph t${i}["${mermaidText(label)}"]`],
      closeGroup: "end",
      task: (i, label) => `t${i}["${mermaidText(label)}"]`,
    }),
  ]
  for (const [i, node] of workflow.nodes.entries()) for (const up of node.upstream) lines.push(`  t${up} --> t${i}`)
  for (const hook of HOOK_EVENTS) {
    const hooks = hooksOf(workflow, hook)
    if (hooks.length === 0) continue
    lines.push(`  subgraph ${hook}`)
    for (const i of hooks) lines.push(`    t${i}(["${mermaidText(workflow.nodes[i]!.name)}"])`)
    lines.push("  end")
  }
  return `${lines.join("\n")}\n`
}

const mermaidText = (text: string): string =>
  text.replace(/[&"<>#]/g, (char) => `#${char.charCodeAt(0)};`).replaceAll("\n", "<br/>")

// -- dot ---------------------------------------------------------------------------------------------------------------------------

const renderDot = (workflow: CompiledWorkflow): string => {
  const lines = [
    `digraph ${dotText(workflow.name)} {`,
    "  compound=true;",
    "  node [shape=box, style=rounded];",
    ...drawBoxes(workflow, {
      openGroup: (i, label) => [`subgraph cluster_${i} {`, `  label=${dotText(label)};`],
      closeGroup: "}",
      task: (i, label) => `t${i} [label=${dotText(label)}];`,
    }),
  ]
  for (const [i, node] of workflow.nodes.entries()) {
    for (const up of node.upstream) {
      const ends = [
        ...(isGroup(workflow.nodes[up]!) ? [`ltail=cluster_${up}`] : []),
        ...(isGroup(node) ? [`lhead=cluster_${i}`] : []),
      ]
      lines.push(
        `  t${anchorOf(workflow, up)} -> t${anchorOf(workflow, i)}${ends.length === 0 ? "" : ` [${ends.join(", ")}]`};`,
      )
    }
  }
  for (const hook of HOOK_EVENTS) {
    for (const i of hooksOf(workflow, hook)) lines.push(`  t${i} [label=${dotText(workflow.nodes[i]!.name)}, style=dashed];`)
  }
  return `${[...lines, "}"].join("\n")}\n`
}

/** Returns the task at which an edge ends: dot draws edges of a group between boxes, but from and to a task inside. */
const anchorOf = (workflow: CompiledWorkflow, index: number): number => {
  let at = index
  while (isGroup(workflow.nodes[at]!)) at = groupMembers(workflow, at)[0]!
  return at
}

const dotText = (text: string): string => `"${text.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`
