// Expressions: CEL in `${{ … }}`. They are parsed once (bounded cache), checked by the compiler through their references, and
// evaluated by the engine over an ExpressionScope of plain JSON. Evaluation is synchronous; engine/gate/evaluator.ts evaluates those
// that are not `isBounded` in a thread that can be killed.

import { messageOf } from "../values/error-message.ts"
import { fromCel, parseCel, toCel, type CelExpression } from "./cel.ts"
import { parsePath, walkPath, type Reference } from "./expression-path.ts"
import { isObject, type Json } from "../values/json.ts"
import type { Template } from "../model/workflow.ts"
import type { ExpressionScope, LargeText } from "./expression-scope.ts"
import { BoundedMap } from "../values/bounded-map.ts"

export { formatPath, EXPRESSION_VARIABLES, type Reference } from "./expression-path.ts"
export type { ExpressionScope, LargeText } from "./expression-scope.ts"

export class ExpressionError extends Error {
  override readonly name = "ExpressionError"
  readonly source: string
  constructor(source: string, reason: string) {
    super(`\${{ ${source.length > 200 ? `${source.slice(0, 200)}…` : source} }}: ${reason}`)
    this.source = source
  }
}

export interface Expression {
  source: string
  refs: Reference[]
  bounded: boolean
  /** Set when the whole expression is a plain path. */
  path: Reference | null
  cel: CelExpression | null
}

/** Operands above this size are rejected: parsing them needs too much memory, and copying them to a thread blocks the server. */
export const MAX_OPERANDS = 16 * 1024 * 1024

const MAX_SOURCE = 8192
const CACHE_SIZE = 2000
const cache = new BoundedMap<string, Expression>(CACHE_SIZE)

/** Parses an expression. Throws ExpressionError when it is not CEL. */
export const parseExpression = (source: string): Expression => {
  const known = cache.get(source)
  if (known !== undefined) {
    if (cache.size > CACHE_SIZE / 2) {
      cache.delete(source)
      cache.set(source, known)
    }
    return known
  }
  const parsed = parse(source)
  cache.set(source, parsed)
  return parsed
}

const parse = (source: string): Expression => {
  if (source.trim() === "") throw new ExpressionError(source, "the expression is empty")
  if (source.length > MAX_SOURCE) throw new ExpressionError(source, `it is longer than ${MAX_SOURCE} characters`)
  const path = parsePath(source)
  if (path !== null) return { source, refs: [path], bounded: true, path, cel: null }
  try {
    const cel = parseCel(source)
    return { source, refs: cel.refs, bounded: cel.bounded, path: null, cel }
  } catch (error) {
    throw new ExpressionError(source, parseReason(error))
  }
}

/** Returns true without comprehensions and regular expressions: evaluation takes time proportional to the input. */
export const isBounded = (source: string): boolean => parseExpression(source).bounded

/**
 * Returns the size of what an expression reads, in characters; stops counting above `limit`. A plain path reads nothing: it is a
 * selection.
 */
export const operandSize = (source: string, scope: ExpressionScope, limit: number): number => {
  const { path, refs } = parseExpression(source)
  let size = 0
  for (const ref of path === null ? refs : []) {
    const walked = walkPath(scope, ref)
    const open: unknown[] = ["missing" in walked ? null : walked.value]
    for (let value = open.pop(); value !== undefined && size <= limit; value = open.pop()) {
      size += typeof value === "string" ? value.length : 8
      if (typeof value !== "object" || value === null) continue
      if (Array.isArray(value)) for (const item of value) open.push(item)
      else for (const [key, item] of Object.entries(value)) open.push(key, item)
    }
  }
  return size
}

/** Returns the large texts that an expression reads, by task. */
export const textsOf = (source: string, { texts }: ExpressionScope): [task: string, text: LargeText][] => {
  if (texts === undefined) return []
  const { refs } = parseExpression(source)
  return Object.entries(texts).filter(([task]) =>
    refs.some(
      ({ root, path: [name, field] }) => root === "tasks" && field !== "status" && (typeof name !== "string" || name === task),
    ),
  )
}

/** Returns the scope with the values of large texts, by task. */
export const withOutputs = (scope: ExpressionScope, outputs: { readonly [task: string]: Json }): ExpressionScope => {
  const tasks = Object.entries(outputs).map(([task, output]) => [task, { ...scope.tasks[task]!, output }] as const)
  return { ...scope, tasks: { ...scope.tasks, ...Object.fromEntries(tasks) } }
}

export type Evaluate = (source: string, scope: ExpressionScope) => Json

/** Evaluates an expression. Throws ExpressionError with the expression and the reason. */
export const evaluate: Evaluate = (source, scope) => {
  const { path, cel, refs } = parseExpression(source)
  if (path !== null) {
    const walked = walkPath(scope, path)
    if ("missing" in walked) throw new ExpressionError(source, walked.missing)
    return walked.value
  }
  try {
    return fromCel(cel!.program()(variables(scope, refs)))
  } catch (error) {
    throw new ExpressionError(source, evaluateReason(error, scope, refs))
  }
}

/** Reduces a scope to what an expression reads: outputs may be large, and are converted or sent to another thread. */
export const narrowScope = (scope: ExpressionScope, refs: readonly Reference[]): Omit<ExpressionScope, "texts"> => {
  const pathsOf = (root: string): Reference["path"][] => refs.flatMap((ref) => (ref.root === root ? [ref.path] : []))
  const [item, parent] = [pathsOf("item"), pathsOf("parent")]
  return {
    params: pick(scope.params, pathsOf("params")) as ExpressionScope["params"],
    ...(scope.doubles !== undefined && { doubles: scope.doubles }),
    tasks: pick(scope.tasks, pathsOf("tasks")) as ExpressionScope["tasks"],
    run: scope.run,
    ...(item.length > 0 && scope.item !== undefined && { item: pick(scope.item, item) }),
    ...(scope.index !== undefined && { index: scope.index }),
    ...(parent.length > 0 && scope.parent !== undefined && { parent: scope.parent }),
    ...(scope.task !== undefined && { task: scope.task }),
    ...(scope.response !== undefined && { response: pick(scope.response, pathsOf("response")) }),
  }
}

/** Keeps of an object only what the paths reach. Lists, and values that are read as a whole, stay complete. */
const pick = (value: Json, paths: readonly Reference["path"][]): Json => {
  if (!isObject(value) || paths.some(([step]) => typeof step !== "string")) return value
  const below = Map.groupBy(paths, ([step]) => String(step))
  const kept = [...below].filter(([key]) => Object.hasOwn(value, key))
  return Object.fromEntries(
    kept.map(([key, inner]) => [
      key,
      pick(
        value[key]!,
        inner.map((path) => path.slice(1)),
      ),
    ]),
  )
}

const variables = (scope: ExpressionScope, refs: readonly Reference[]): Record<string, ReturnType<typeof toCel>> => {
  const { doubles = [], params, ...rest } = narrowScope(scope, refs)
  const values = Object.entries(params).map(
    ([name, value]) => [name, typeof value === "number" && doubles.includes(name) ? value : toCel(value)] as const,
  )
  const others = Object.entries(rest).map(([name, value]) => [name, toCel(value)] as const)
  return { params: new Map(values), ...Object.fromEntries(others) }
}

// -- templates -------------------------------------------------------------------------------------------------------------------

/** Converts a value for a text, an argument or an environment variable: strings unchanged, null empty, the rest JSON. */
export const toText = (value: Json): string => {
  if (value === null) return ""
  return typeof value === "string" ? value : JSON.stringify(value)
}

export const render = (template: Template, scope: ExpressionScope, evaluateOne: Evaluate = evaluate): Json => {
  if ("lit" in template) return template.lit
  if ("expr" in template) return evaluateOne(template.expr, scope)
  if ("text" in template) {
    return template.text.map((part) => (typeof part === "string" ? part : toText(evaluateOne(part.expr, scope)))).join("")
  }
  if ("list" in template) return template.list.map((item) => render(item, scope, evaluateOne))
  return Object.fromEntries(Object.entries(template.map).map(([key, item]) => [key, render(item, scope, evaluateOne)]))
}

/** Returns every expression of a template in order, including repetitions. */
export const expressionsOf = (template: Template): string[] => {
  if ("lit" in template) return []
  if ("expr" in template) return [template.expr]
  if ("text" in template) return template.text.flatMap((part) => (typeof part === "string" ? [] : [part.expr]))
  if ("list" in template) return template.list.flatMap(expressionsOf)
  return Object.values(template.map).flatMap(expressionsOf)
}

// -- messages --------------------------------------------------------------------------------------------------------------------

const parseReason = (error: unknown): string => {
  if (error instanceof RangeError) return "it is nested too deeply"
  const message = messageOf(error)
  const at = /^<input>:(\d+):(\d+): (.*)$/s.exec(message)
  return at === null ? message : `it is not a valid expression, at character ${at[2]}: ${at[3]}`
}

const evaluateReason = (error: unknown, scope: ExpressionScope, refs: readonly Reference[]): string => {
  if (error instanceof RangeError) return "it is nested too deeply"
  const message = messageOf(error)
  const missing = refs.find((ref) => !Object.hasOwn(scope, ref.root))
  if (message === "unresolved attribute" && missing !== undefined) return `${missing.root} is not defined here`
  const field = /^field not found: (.*)$/s.exec(message)?.[1]
  if (field !== undefined) {
    const ref = refs.find((candidate) => candidate.path.some((step) => String(step) === field))
    const walked = ref === undefined ? null : walkPath(scope, ref)
    return walked !== null && "missing" in walked ? walked.missing : `there is no field "${field}"`
  }
  const index = /^index (-?\d+) out of bounds/.exec(message)?.[1]
  if (index !== undefined) return `there is no index ${index}`
  const overload = /no matching overload for '?([^']+?)'? applied to '(.*)'$/s.exec(message)
  if (overload === null) return message
  const mixed = /^\((?:int, double|double, int)\)$/.test(overload[2]!)
  const operator = overload[1]!
    .replace(/^_(.+)_$/, "$1")
    .replaceAll("_", " ")
    .trim()
  return `${operator} does not accept ${overload[2]}${mixed ? "; convert one of them with double(…) or int(…)" : ""}`
}
