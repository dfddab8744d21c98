// The graph as text: one line per task, after its upstream, with the step in which it can run at the earliest. Pure.

import { notesOf, shortName } from "./notes.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"
import { table } from "../text.ts"

export const textGraph = (workflow: CompiledWorkflow): string[] => {
  const rows: string[][] = []
  const add = (members: number[], depth: number): void => {
    for (const { node, level } of byLevel(workflow, members)) {
      const { upstream } = workflow.nodes[node]!
      const from = upstream.map((up) => shortName(workflow.nodes[up]!)).join(", ")
      const indent = "  ".repeat(depth)
      rows.push([
        `${indent}${level + 1}`,
        `${indent}${shortName(workflow.nodes[node]!)}`,
        from === "" ? "" : `← ${from}`,
        notesOf(workflow, node).join("; "),
      ])
      add(membersOf(workflow, node), depth + 1)
    }
  }
  add(membersOf(workflow, null), 0)
  for (const node of workflow.nodes) if (node.hook !== null) rows.push(["-", node.name, "", "hook"])
  return [workflow.name, ...table(rows).map((line) => `  ${line}`)]
}

const membersOf = (workflow: CompiledWorkflow, group: number | null): number[] =>
  workflow.nodes.flatMap((node, i) => (node.group === group && node.hook === null ? [i] : []))

/** The tasks of one scope in the order in which they can run; a task's level is one more than the highest above it. */
const byLevel = (workflow: CompiledWorkflow, members: number[]): { node: number; level: number }[] => {
  const level = new Map<number, number>()
  const missing = new Map(members.map((node) => [node, workflow.nodes[node]!.upstream.length]))
  let ready = members.filter((node) => missing.get(node) === 0)
  for (let depth = 0; ready.length > 0; depth++) {
    const next: number[] = []
    for (const node of ready) {
      level.set(node, depth)
      for (const down of workflow.nodes[node]!.downstream) {
        missing.set(down, missing.get(down)! - 1)
        if (missing.get(down) === 0) next.push(down)
      }
    }
    ready = next.toSorted((a, b) => a - b)
  }
  return [...level].map(([node, at]) => ({ node, level: at }))
}
