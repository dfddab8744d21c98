// Compiles `foreach` and `parallel`: a literal, an expression, or a reference such as `discover.files` to the output of a task. The type
// of a literal is checked when the task runs, where it fails the task with its name.

import { formatPath } from "../../expressions/expressions.ts"
import { parsePath } from "../../expressions/expression-path.ts"
import type { Json } from "../../values/json.ts"
import type { Node, Template } from "../../model/workflow.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import type { NameScope } from "../context/name-scope.ts"
import { quote } from "../context/names.ts"
import type { TaskSource } from "./task.ts"

const REFERENCE = /^([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:\d+|"[^"\\]*"|'[^'\\]*')\])*)$/

export const compileFan = (context: CompileContext, source: TaskSource): NonNullable<Node["fan"]> | null => {
  const { foreach, parallel } = source.merged
  if (foreach === undefined && parallel === undefined) return null
  const written = [...(foreach === undefined ? [] : [foreach]), ...(parallel === undefined ? [] : [parallel])]
  return {
    ...(foreach !== undefined && { foreach: compileValue(context, source, foreach, "foreach") }),
    ...(parallel !== undefined && { parallel: compileValue(context, source, parallel, "parallel") }),
    reference: written.map(shorten).join(" × "),
  }
}

const shorten = (value: Json): string => {
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

const compileValue = (context: CompileContext, source: TaskSource, value: Json, field: "foreach" | "parallel"): Template => {
  const path = [...source.path, field]
  const site: ExpressionSite = { node: source.index, fan: true }
  if (typeof value !== "string" || value.includes("${{")) return context.template(value, path, site)
  const reference = value.trim()
  const expr = resolveReference(reference, source.scope)
  if (expr !== null) {
    context.use(expr, path, site)
    return { expr }
  }
  const task = REFERENCE.exec(reference)?.[1]
  if (task === undefined) {
    context.problems.add(path, `${quote(value)} is not a reference such as task.field; write an expression as \${{ … }}`)
  } else {
    const message = `${quote(value)} refers to task ${quote(task)}, but there is no such task`
    context.problems.add(path, message, context.nearest(task, source.scope.names.keys()))
  }
  return { lit: value }
}

/** Resolves `discover.files` to `tasks.discover.output.files`; paths from the variables of expressions stay as they are. */
const resolveReference = (text: string, scope: NameScope): string | null => {
  if (parsePath(text) !== null) return text
  const match = REFERENCE.exec(text)
  if (match === null) return null
  const [, task, below] = match
  return isVisible(task!, scope) ? formatPath("tasks", [task!, "output"]) + below! : null
}

const isVisible = (name: string, scope: NameScope): boolean => {
  for (let at: NameScope | null = scope; at !== null; at = at.outer) if (at.names.has(name)) return true
  return false
}
