// Finds the upstream tasks that the expressions of a node refer to, so that no other output is fetched.

import { expressionsOf, parseExpression } from "../../core/expressions/expressions.ts"
import type { Node } from "../../core/model/workflow.ts"

/** Task names as the expressions write them; `all` when an expression computes a name (`tasks[params.which]`). */
export type ReferencedTasks = ReadonlySet<string> | "all"

const cache = new WeakMap<Node, ReferencedTasks>()

export const referencedTasks = (node: Node): ReferencedTasks => {
  const found = cache.get(node) ?? findReferences(node)
  cache.set(node, found)
  return found
}

const findReferences = (node: Node): ReferencedTasks => {
  const names = new Set<string>()
  for (const source of expressionsIn(node)) {
    for (const ref of parseExpression(source).refs) {
      if (ref.root !== "tasks") continue
      const name = ref.path[0]
      if (typeof name !== "string") return "all"
      names.add(name)
    }
  }
  return names
}

const expressionsIn = (node: Node): string[] => {
  const templates = [node.fan?.foreach, node.fan?.parallel, node.input, node.workingDir, ...Object.values(node.fields)]
  for (const value of Object.values(node.env)) if ("value" in value) templates.push(value.value)
  if (node.command !== undefined && "argv" in node.command) templates.push(...node.command.argv)
  const vars = node.command !== undefined && "shell" in node.command ? node.command.vars.map((variable) => variable.expr) : []
  const bare = [node.if, node.concurrencyKey, node.cache?.key].filter((source) => source !== undefined)
  return [...bare, ...vars, ...templates.flatMap((template) => (template === undefined ? [] : expressionsOf(template)))]
}
