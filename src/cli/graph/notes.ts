// What is worth saying about a task beside its name, in the graph of a workflow.

import type { CompiledWorkflow, Node } from "../../core/workflow.ts"

export const notesOf = (workflow: CompiledWorkflow, index: number): string[] => {
  const node = workflow.nodes[index]!
  const notes: string[] = []
  const group = workflow.nodes.some((other) => other.group === index)
  if (group) notes.push("group")
  else if (node.executor !== "process") notes.push(node.executor)
  if (node.fan?.foreach !== undefined) notes.push(`foreach ${node.fan.reference}`)
  if (node.fan?.parallel !== undefined)
    notes.push(`parallel${"lit" in node.fan.parallel ? ` ${JSON.stringify(node.fan.parallel.lit)}` : ""}`)
  if (node.rule !== "all_success") notes.push(`when ${node.rule}`)
  if (node.if !== undefined) notes.push(`if ${node.if}`)
  if (node.retry.maxAttempts > 1) notes.push(`${node.retry.maxAttempts} attempts`)
  return notes
}

/** The name inside its group. */
export const shortName = (node: Node): string =>
  node.group === null ? node.name : node.name.slice(node.name.lastIndexOf(".") + 1)
