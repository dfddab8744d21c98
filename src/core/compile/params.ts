// Declared params: a spec, or a bare value that is the default and gives the type.

import { isDateText } from "../time/cron.ts"
import type { WorkflowDefinition } from "../model/definition.ts"
import { isObject, type Json, type JsonObject } from "../model/json.ts"
import { nearest } from "../model/nearest.ts"
import { valueProblem } from "../rules/params.ts"
import type { Path } from "../model/problems.ts"
import { schemaProblem } from "../model/json-schema.ts"
import { PARAM_TYPES, type ParamSpec, type ParamType } from "../model/workflow.ts"
import type { Context } from "./context.ts"
import { paramNameProblem, quote } from "./names.ts"

const OWN_KEYWORDS = ["type", "enum", "required", "default", "description"]
const SCHEMA_KEYWORDS = (
  "title examples const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format items " +
  "prefixItems contains minItems maxItems uniqueItems properties patternProperties additionalProperties propertyNames " +
  "minProperties maxProperties required dependentRequired allOf anyOf oneOf not"
).split(" ")
const TYPE_SYNONYMS: Readonly<Record<string, ParamType>> = {
  int: "integer",
  float: "number",
  double: "number",
  bool: "boolean",
  str: "string",
  text: "string",
  list: "array",
  dict: "object",
  map: "object",
  datetime: "date",
  timestamp: "date",
}
const KEYWORDS = [...OWN_KEYWORDS, ...SCHEMA_KEYWORDS]

export const compileParams = (context: Context, params: WorkflowDefinition["params"] = {}): ParamSpec[] =>
  Object.entries(params).map(([name, value]) => {
    const path = ["params", name]
    const problem = paramNameProblem(name)
    if (problem !== null) context.problems.addKey(path, problem)
    return isObject(value) ? compileSpec(context, name, value, path) : shorthand(name, value)
  })

const shorthand = (name: string, value: Json): ParamSpec => ({
  name,
  type: typeOf(value) ?? "string",
  required: false,
  default: value,
})

const typeOf = (value: Json | undefined): ParamType | undefined => {
  if (value === undefined || value === null) return undefined
  if (Array.isArray(value)) return "array"
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number"
  return typeof value as "string" | "boolean" | "object"
}

const compileSpec = (context: Context, name: string, spec: JsonObject, path: Path): ParamSpec => {
  for (const keyword of Object.keys(spec)) {
    if (KEYWORDS.includes(keyword)) continue
    context.problems.addKey([...path, keyword], `unknown field ${quote(keyword)}`, nearest(keyword, KEYWORDS))
  }
  const add = (field: string, message: string, suggestion?: string): void =>
    context.problems.add([...path, field], message, suggestion)

  const choices = spec["enum"]
  if (choices !== undefined && (!Array.isArray(choices) || choices.length === 0)) add("enum", "must be a list of values")
  const values = Array.isArray(choices) && choices.length > 0 ? choices : undefined
  const written = spec["type"]
  if (written !== undefined && !isParamType(written)) {
    add(
      "type",
      `must be one of ${PARAM_TYPES.join(", ")}`,
      typeof written === "string"
        ? Object.hasOwn(TYPE_SYNONYMS, written)
          ? TYPE_SYNONYMS[written]
          : nearest(written, PARAM_TYPES)
        : undefined,
    )
  }
  const type = isParamType(written) ? written : (commonType(values) ?? typeOf(spec["default"]) ?? "string")
  const required = spec["required"]
  if (required !== undefined && typeof required !== "boolean" && !Array.isArray(required))
    add("required", "must be true or false")
  const description = spec["description"]
  if (description !== undefined && typeof description !== "string") add("description", "must be a text")

  const schema: JsonObject = {}
  for (const keyword of SCHEMA_KEYWORDS) {
    const value = spec[keyword]
    if (value !== undefined && !(keyword === "required" && !Array.isArray(value))) schema[keyword] = value
  }
  const hasSchema = Object.keys(schema).length > 0
  const broken = hasSchema ? schemaProblem(schema) : null
  if (broken !== null) context.problems.add(path, broken)

  const compiled: ParamSpec = {
    name,
    type,
    required: required === true,
    ...(values !== undefined && { enum: values }),
    ...(spec["default"] !== undefined && { default: spec["default"] }),
    ...(typeof description === "string" && { description }),
    ...(hasSchema && broken === null && { schema }),
  }
  if (compiled.default !== undefined && compiled.default !== null) {
    const misfit = valueProblem(compiled, compiled.default)
    if (misfit !== null) add("default", misfit)
  }
  for (const [i, value] of (values ?? []).entries()) {
    const misfit = valueProblem({ name, type, required: false }, value)
    if (misfit !== null) context.problems.add([...path, "enum", i], misfit)
  }
  return compiled
}

const isParamType = (value: unknown): value is ParamType => PARAM_TYPES.some((type) => type === value)

const commonType = (values: Json[] | undefined): ParamType | undefined => {
  const types = new Set((values ?? []).map(typeOf))
  if (types.size === 1) return [...types][0]
  return types.size === 2 && types.has("integer") && types.has("number") ? "number" : undefined
}

/** `start` and `end` of a schedule. */
export const dateProblem = (text: string): string | null =>
  isDateText(text) ? null : "must be a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)"
