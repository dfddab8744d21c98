// Drawings of a compiled workflow: plain text for a terminal, mermaid and dot for documents. Groups are boxes, hooks stand apart.

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

const membersOf = (workflow: CompiledWorkflow): Map<number | null, number[]> => {
  const members = new Map<number | null, number[]>()
  workflow.nodes.forEach((node, i) => {
    if (node.hook !== null) return
    const list = members.get(node.group)
    if (list === undefined) members.set(node.group, [i])
    else list.push(i)
  })
  return members
}

const hooksOf = (workflow: CompiledWorkflow, hook: HookEvent): number[] =>
  workflow.nodes.flatMap((node, i) => (node.hook === hook ? [i] : []))

const shortName = (node: Node): string => (node.hook === null ? node.name.slice(node.name.lastIndexOf(".") + 1) : node.name)

/** What sets the task apart from a plain one: `× discover.files, if params.limit > 10`. */
const remarks = (node: Node, isGroup: boolean): string[] => allRemarks(node, isGroup).map(oneLine)

/** An expression may hold anything, and this is drawn on a terminal. */
const oneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, " ")

const allRemarks = (node: Node, isGroup: boolean): string[] => [
  ...(node.executor === "process" || isGroup ? [] : [node.executor]),
  ...(node.fan === undefined ? [] : [`× ${node.fan.reference}`]),
  ...(node.rule === "all_success" ? [] : [node.rule]),
  ...(node.if === undefined ? [] : [`if ${node.if}`]),
]

// -- text ------------------------------------------------------------------------------------------------------------------------

/** Layer by layer: every task stands below all that it waits for, with the names of those at its right. */
const renderText = (workflow: CompiledWorkflow): string => {
  const members = membersOf(workflow)
  const lines = [workflow.name]
  const scope = (group: number | null, indent: string): void => {
    const inside = members.get(group) ?? []
    const layers = layersOf(workflow, inside)
    const width = Math.min(32, Math.max(0, ...inside.map((i) => shortName(workflow.nodes[i]!).length)))
    for (const [depth, layer] of layers.entries()) {
      for (const [place, i] of layer.entries()) {
        const node = workflow.nodes[i]!
        const isGroup = members.has(i)
        const from = node.upstream.map((up) => shortName(workflow.nodes[up]!))
        const notes = [
          ...(from.length === 0 ? [] : [`← ${listed(from)}`]),
          ...remarks(node, isGroup).map((note) => `(${note})`),
        ]
        const mark = place === 0 ? String(depth + 1).padStart(2) : "  "
        lines.push(
          `${indent}${mark}  ${`${shortName(node)}${isGroup ? "/" : ""}`.padEnd(width + 1)} ${notes.join(" ")}`.trimEnd(),
        )
        if (isGroup) scope(i, `${indent}    `)
      }
    }
  }
  scope(null, "")
  for (const hook of HOOK_EVENTS) {
    for (const i of hooksOf(workflow, hook)) {
      const notes = remarks(workflow.nodes[i]!, false).map((note) => ` (${note})`)
      lines.push(` ↳  ${workflow.nodes[i]!.name}${notes.join("")}`)
    }
  }
  return `${lines.join("\n")}\n`
}

const listed = (names: string[]): string =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 5).join(", ")} and ${names.length - 5} more`

/** Each node one layer below the lowest of its upstreams. */
const layersOf = (workflow: CompiledWorkflow, members: number[]): number[][] => {
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
  const members = membersOf(workflow)
  const lines = ["flowchart TD"]
  const scope = (group: number | null, indent: string): void => {
    for (const i of members.get(group) ?? []) {
      const node = workflow.nodes[i]!
      const label = mermaidText([shortName(node), ...remarks(node, members.has(i))].join("\n"))
      if (members.has(i)) {
        lines.push(`${indent}subgraph t${i}["${label}"]`)
        scope(i, `${indent}  `)
        lines.push(`${indent}end`)
      } else lines.push(`${indent}t${i}["${label}"]`)
    }
  }
  scope(null, "  ")
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
  const members = membersOf(workflow)
  const lines = [`digraph ${dotText(workflow.name)} {`, "  compound=true;", "  node [shape=box, style=rounded];"]
  const scope = (group: number | null, indent: string): void => {
    for (const i of members.get(group) ?? []) {
      const node = workflow.nodes[i]!
      const label = dotText([shortName(node), ...remarks(node, members.has(i))].join("\n"))
      if (members.has(i)) {
        lines.push(`${indent}subgraph cluster_${i} {`, `${indent}  label=${label};`)
        scope(i, `${indent}  `)
        lines.push(`${indent}}`)
      } else lines.push(`${indent}t${i} [label=${label}];`)
    }
  }
  scope(null, "  ")
  /** An edge of a group is drawn between boxes, from and to a task inside. */
  const anchor = (i: number): number => {
    let at = i
    while (members.has(at)) at = members.get(at)![0]!
    return at
  }
  for (const [i, node] of workflow.nodes.entries()) {
    for (const up of node.upstream) {
      const ends = [...(members.has(up) ? [`ltail=cluster_${up}`] : []), ...(members.has(i) ? [`lhead=cluster_${i}`] : [])]
      lines.push(`  t${anchor(up)} -> t${anchor(i)}${ends.length === 0 ? "" : ` [${ends.join(", ")}]`};`)
    }
  }
  for (const hook of HOOK_EVENTS) {
    for (const i of hooksOf(workflow, hook)) lines.push(`  t${i} [label=${dotText(workflow.nodes[i]!.name)}, style=dashed];`)
  }
  return `${[...lines, "}"].join("\n")}\n`
}

const dotText = (text: string): string => `"${text.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`
