// Binds the params of a run: checks the given values against the workflow's declarations and adds defaults. Returns all problems at
// once. Text values (`--param k=v`) are parsed by the declared type.

import { isDateText } from "../../time/cron.ts"
import { isObject, type Json, type JsonObject } from "../../values/json.ts"
import { nearest } from "../../values/nearest.ts"
import type { Problem } from "../../model/problems.ts"
import { checkSchema } from "../../values/json-schema.ts"
import type { CompiledWorkflow, ParamSpec } from "../../model/workflow.ts"

export type BoundParams = { ok: true; params: JsonObject } | { ok: false; problems: Problem[] }

export interface GivenParams {
  values?: JsonObject
  /** Values as typed on a command line; they win over `values`. */
  text?: { [name: string]: string }
}

export const bindParams = (workflow: Pick<CompiledWorkflow, "params" | "anyParams">, given: GivenParams): BoundParams => {
  if (workflow.anyParams === true) return { ok: true, params: { ...given.values, ...given.text } }
  const problems: Problem[] = []
  const params: JsonObject = {}
  const known = new Map(workflow.params.map((spec) => [spec.name, spec]))
  const add = (name: string, message: string, suggestion?: string): void => {
    problems.push({ path: `params.${name}`, message, ...(suggestion !== undefined && { suggestion }) })
  }

  for (const name of new Set([...Object.keys(given.values ?? {}), ...Object.keys(given.text ?? {})])) {
    const spec = known.get(name)
    if (spec === undefined) {
      const declared = [...known.keys()]
      add(
        name,
        declared.length === 0 ? "the workflow has no params" : `is not a param of the workflow; it has ${declared.join(", ")}`,
        nearest(name, declared),
      )
      continue
    }
    const text = given.text !== undefined && Object.hasOwn(given.text, name) ? given.text[name] : undefined
    const read = text === undefined ? { value: given.values![name]! } : readText(spec, text)
    const problem = "problem" in read ? read.problem : valueProblem(spec, read.value)
    if (problem !== null) add(name, problem)
    else if ("value" in read) params[name] = read.value
  }

  for (const spec of workflow.params) {
    if (Object.hasOwn(params, spec.name) || problems.some((problem) => problem.path === `params.${spec.name}`)) continue
    if (spec.default !== undefined) params[spec.name] = spec.default
    else if (spec.required)
      add(spec.name, `is required (${spec.type}${spec.description === undefined ? "" : `: ${spec.description}`})`)
    else params[spec.name] = null
  }
  return problems.length === 0 ? { ok: true, params } : { ok: false, problems }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/

const readText = (spec: ParamSpec, text: string): { value: Json } | { problem: string } => {
  switch (spec.type) {
    case "string":
    case "date":
      return { value: text }
    case "integer":
    case "number":
      return NUMBER.test(text.trim())
        ? { value: Number(text) }
        : { problem: `must be ${NOUNS[spec.type]}, but is ${show(text)}` }
    case "boolean":
      if (/^(true|yes|on|1)$/i.test(text)) return { value: true }
      return /^(false|no|off|0)$/i.test(text) ? { value: false } : { problem: `must be true or false, but is ${show(text)}` }
    case "array":
    case "object":
      try {
        return { value: JSON.parse(text) as Json }
      } catch {
        return { problem: `must be ${NOUNS[spec.type]} as JSON, but is ${show(text)}` }
      }
    case "enum":
      return { value: spec.enum?.find((choice) => textOf(choice) === text) ?? text }
    default:
      return spec.type satisfies never
  }
}

const textOf = (choice: Json): string => (typeof choice === "string" ? choice : JSON.stringify(choice))

const NOUNS = {
  string: "a text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  date: "a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)",
  array: "a list",
  object: "an object",
  enum: "one of its choices",
} as const satisfies Record<ParamSpec["type"], string>

const FITS = {
  string: (value) => typeof value === "string",
  integer: (value) => Number.isSafeInteger(value),
  number: (value) => typeof value === "number" && Number.isFinite(value),
  boolean: (value) => typeof value === "boolean",
  date: (value) => typeof value === "string" && isDateText(value),
  array: (value) => Array.isArray(value),
  object: (value) => isObject(value),
  enum: () => true,
} as const satisfies Record<ParamSpec["type"], (value: Json) => boolean>

/** Returns why the value does not fit the param, or null when it does. null fits a param that is not required. */
export const valueProblem = (spec: ParamSpec, value: Json): string | null => {
  if (value === null && !spec.required) return null
  if (!FITS[spec.type](value)) return `must be ${NOUNS[spec.type]}, but is ${show(value)}`
  if (spec.enum !== undefined) {
    const text = JSON.stringify(value)
    const choices = spec.enum.slice(0, MAX_SHOWN).map(show).join(", ")
    const more = spec.enum.length > MAX_SHOWN ? ", …" : ""
    if (!spec.enum.some((choice) => JSON.stringify(choice) === text))
      return `must be one of ${choices}${more}, but is ${show(value)}`
  }
  return spec.schema === undefined ? null : checkSchema(spec.schema, value)
}

/** Choices that a message lists. */
const MAX_SHOWN = 50

const show = (value: Json): string => {
  const text = JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
