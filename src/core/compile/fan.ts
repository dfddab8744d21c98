// `foreach` and `parallel`: a literal, an expression, or a reference such as `discover.files`, whose first part is a task.
// What a literal holds is judged when the task runs (a number is no list), so that the task fails, naming it.

import { formatPath } from "../expressions/expressions.ts"
import { parsePath } from "../expressions/expression-path.ts"
import type { Json } from "../model/json.ts"
import type { Node, Template } from "../model/workflow.ts"
import type { Context, ExpressionSite } from "./context.ts"
import { quote } from "./names.ts"
import type { NameScope } from "./name-scope.ts"
import type { TaskSource } from "./task.ts"

const REFERENCE = /^([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:\d+|"[^"\\]*"|'[^'\\]*')\])*)$/

export const compileFan = (context: Context, source: TaskSource): NonNullable<Node["fan"]> | null => {
  const { foreach, parallel } = source.merged
  if (foreach === undefined && parallel === undefined) return null
  const items = foreach === undefined ? null : compileValue(context, source, foreach, "foreach")
  const count = parallel === undefined ? null : compileValue(context, source, parallel, "parallel")
  const written = [...(foreach === undefined ? [] : [foreach]), ...(parallel === undefined ? [] : [parallel])]
  return {
    ...(items !== null && { foreach: items }),
    ...(count !== null && { parallel: count }),
    reference: written.map(asWritten).join(" × "),
  }
}

const asWritten = (value: Json): string => {
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

const compileValue = (context: Context, source: TaskSource, value: Json, field: "foreach" | "parallel"): Template => {
  const path = [...source.path, field]
  const place: ExpressionSite = { node: source.index, fan: true }
  if (typeof value !== "string" || value.includes("${{")) return context.template(value, path, place)
  const expr = resolve(value.trim(), source.scope)
  if (expr === null) {
    const first = REFERENCE.exec(value.trim())?.[1]
    if (first === undefined) {
      context.problems.add(path, `${quote(value)} is no reference such as task.field; write an expression as \${{ … }}`)
    } else {
      context.problems.add(
        path,
        `${quote(value)} refers to task ${quote(first)}, which is not there`,
        context.nearest(first, source.scope.names.keys()),
      )
    }
    return { lit: value }
  }
  context.use(expr, path, place)
  return { expr }
}

/** `discover.files` → `tasks.discover.output.files`; paths from the variables of expressions stay as they are. */
const resolve = (text: string, scope: NameScope): string | null => {
  if (parsePath(text) !== null) return text
  const match = REFERENCE.exec(text)
  if (match === null) return null
  const [, task, below] = match
  return isAround(task!, scope) ? formatPath("tasks", [task!, "output"]) + below! : null
}

const isAround = (name: string, scope: NameScope): boolean => {
  for (let at: NameScope | null = scope; at !== null; at = at.outer) if (at.names.has(name)) return true
  return false
}
