// Plain paths (`params.x`, `tasks.a.output.b[0]`, `item["k"]`) are the most common expressions. They are parsed and evaluated here
// without CEL, with the meaning that CEL gives them, which saves its load time and most of the work of an evaluation.

import { isObject, type Json } from "../values/json.ts"

/** A variable that an expression reads, and the literal steps below it. */
export interface Reference {
  root: string
  path: (string | number)[]
}

export const EXPRESSION_VARIABLES = ["params", "tasks", "run", "item", "index", "parent"] as const

const IDENT = /[A-Za-z_][A-Za-z0-9_]*/y
const STEP = /\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:(\d{1,15})|"([^"\\\r\n]*)"|'([^'\\\r\n]*)')\s*\])/y

/** Words that CEL parses as literals or operators even after a dot. */
const NOT_A_FIELD = new Set(["true", "false", "null", "in"])

/** Returns the path, or null when the text is not a plain path from a variable. */
export const parsePath = (text: string): Reference | null => {
  const source = text.trim()
  IDENT.lastIndex = 0
  const root = IDENT.exec(source)?.[0]
  if (root === undefined || !EXPRESSION_VARIABLES.some((known) => known === root)) return null
  const path: (string | number)[] = []
  let at = root.length
  while (at < source.length) {
    STEP.lastIndex = at
    const step = STEP.exec(source)
    if (step === null) return null
    const [whole, field, number, double, single] = step
    if (field !== undefined) {
      if (NOT_A_FIELD.has(field)) return null
      path.push(field)
    } else {
      path.push(number === undefined ? (double ?? single ?? "") : Number(number))
    }
    at += whole.length
  }
  return { root, path }
}

/** Formats a path: `tasks["a-b"].output[0]`. */
export const formatPath = (root: string, path: readonly (string | number)[]): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === "number"
        ? `${text}[${step}]`
        : /^[A-Za-z_][A-Za-z0-9_]*$/.test(step)
          ? `${text}.${step}`
          : `${text}[${JSON.stringify(step)}]`,
    root,
  )

export type PathResult = { value: Json } | { missing: string }

/** Follows a path through plain values. When a step is missing, the message lists what is there instead. */
export const walkPath = (variables: object, { root, path }: Reference): PathResult => {
  const start = own(variables, root)
  if (start === undefined) return { missing: `${root} is not defined here` }
  let value: unknown = start
  for (const [depth, step] of path.entries()) {
    let next: unknown
    if (typeof step === "number") next = Array.isArray(value) ? value[step] : undefined
    else next = isObject(value) ? own(value, step) : undefined
    if (next === undefined) return { missing: describeMissing(formatPath(root, path.slice(0, depth)), value, step) }
    value = next
  }
  return { value: value as Json }
}

const own = (object: object, key: string): unknown =>
  Object.hasOwn(object, key) ? (object as Record<string, unknown>)[key] : undefined

const describeMissing = (parent: string, value: unknown, step: string | number): string => {
  if (Array.isArray(value)) {
    return typeof step === "number"
      ? `${parent} has no index ${step} (it is a list of ${value.length})`
      : `${parent} has no field "${step}" (it is a list)`
  }
  if (!isObject(value)) return `${parent} has no ${field(step)} (it is ${value === null ? "null" : `a ${typeof value}`})`
  const keys = Object.keys(value)
  const listed = keys.length === 0 ? "it is empty" : `it has ${keys.slice(0, 8).join(", ")}${keys.length > 8 ? ", …" : ""}`
  return `${parent} has no ${field(step)} (${listed})`
}

const field = (step: string | number): string => (typeof step === "number" ? `index ${step}` : `field "${step}"`)
