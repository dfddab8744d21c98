// Which upstream tasks the expressions of a node name, so that no output is read that nobody asked for.

import { expressionsOf, parseExpression } from "../../core/expressions/expressions.ts"
import type { Node } from "../../core/model/workflow.ts"

/** Names as the expressions write them; `all` when one computes the name (`tasks[params.which]`). */
export type TasksRead = ReadonlySet<string> | "all"

const known = new WeakMap<Node, TasksRead>()

export const tasksRead = (node: Node): TasksRead => {
  const found = known.get(node) ?? findReads(node)
  known.set(node, found)
  return found
}

const findReads = (node: Node): TasksRead => {
  const names = new Set<string>()
  for (const source of sourcesOf(node)) {
    for (const ref of parseExpression(source).refs) {
      if (ref.root !== "tasks") continue
      const name = ref.path[0]
      if (typeof name !== "string") return "all"
      names.add(name)
    }
  }
  return names
}

const sourcesOf = (node: Node): string[] => {
  const templates = [node.fan?.foreach, node.fan?.parallel, node.input, node.workingDir, ...Object.values(node.fields)]
  for (const value of Object.values(node.env)) if ("value" in value) templates.push(value.value)
  if (node.command !== undefined && "argv" in node.command) templates.push(...node.command.argv)
  const vars = node.command !== undefined && "shell" in node.command ? node.command.vars.map((variable) => variable.expr) : []
  const plain = [node.if, node.concurrencyKey, node.cache?.key].filter((source) => source !== undefined)
  return [...plain, ...vars, ...templates.flatMap((template) => (template === undefined ? [] : expressionsOf(template)))]
}
