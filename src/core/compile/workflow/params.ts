// Compiles the declared params. A declaration is an object with `type`, `default`, `enum`, …, or a bare value: the default.

import { isDateText } from "../../time/cron.ts"
import type { WorkflowDefinition } from "../../model/definition.ts"
import { isObject, type Json, type JsonObject } from "../../values/json.ts"
import { nearest } from "../../values/nearest.ts"
import { valueProblem } from "../../rules/runs/params.ts"
import type { Path } from "../../model/problems.ts"
import { schemaProblem } from "../../values/json-schema.ts"
import { PARAM_TYPES, type ParamSpec, type ParamType } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import { paramNameProblem, quote } from "../context/names.ts"

const OWN_KEYWORDS = ["type", "enum", "required", "default", "description"]
const SCHEMA_KEYWORDS = (
  "title examples const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format items " +
  "prefixItems contains minItems maxItems uniqueItems properties patternProperties additionalProperties propertyNames " +
  "minProperties maxProperties required dependentRequired allOf anyOf oneOf not"
).split(" ")
/** Names of types in other systems. */
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

export const compileParams = (context: CompileContext, params: WorkflowDefinition["params"] = {}): ParamSpec[] =>
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

const compileSpec = (context: CompileContext, name: string, spec: JsonObject, path: Path): ParamSpec => {
  checkKeywords(context, spec, path)
  const { default: value, description, required } = spec
  const choices = compileEnum(context, spec["enum"], path)
  const type = compileType(context, spec["type"], path) ?? commonType(choices) ?? typeOf(value) ?? "string"
  if (type === "enum" && choices === undefined)
    context.problems.add(path, "has the type enum, but no choices; add enum: [a, b]")
  const schema = compileSchema(context, spec, path)
  const compiled: ParamSpec = {
    name,
    type,
    required: required === true,
    ...(choices !== undefined && { enum: choices }),
    ...(value !== undefined && { default: value }),
    ...(typeof description === "string" && { description }),
    ...(schema !== null && { schema }),
  }
  checkValues(context, compiled, path)
  return compiled
}

const checkKeywords = ({ problems }: CompileContext, spec: JsonObject, path: Path): void => {
  for (const keyword of Object.keys(spec)) {
    if (KEYWORDS.includes(keyword)) continue
    problems.addKey([...path, keyword], `unknown field ${quote(keyword)}`, nearest(keyword, KEYWORDS))
  }
  const { required, description } = spec
  if (required !== undefined && typeof required !== "boolean" && !Array.isArray(required)) {
    problems.add([...path, "required"], "must be true or false")
  }
  if (description !== undefined && typeof description !== "string") problems.add([...path, "description"], "must be a text")
}

const compileEnum = ({ problems }: CompileContext, values: Json | undefined, path: Path): Json[] | undefined => {
  if (values === undefined || (Array.isArray(values) && values.length > 0)) return values
  problems.add([...path, "enum"], "must be a list of values")
  return undefined
}

const compileType = ({ problems }: CompileContext, type: Json | undefined, path: Path): ParamType | undefined => {
  if (type === undefined || isParamType(type)) return type
  problems.add([...path, "type"], `must be one of ${PARAM_TYPES.join(", ")}`, suggestType(type))
  return undefined
}

const suggestType = (type: Json): string | undefined => {
  if (typeof type !== "string") return undefined
  return Object.hasOwn(TYPE_SYNONYMS, type) ? TYPE_SYNONYMS[type] : nearest(type, PARAM_TYPES)
}

/** Returns the JSON Schema keywords of a param; null without any, or when they are not valid. */
const compileSchema = ({ problems }: CompileContext, spec: JsonObject, path: Path): JsonObject | null => {
  const schema: JsonObject = {}
  for (const keyword of SCHEMA_KEYWORDS) {
    const value = spec[keyword]
    // `required: true` concerns the param; a list is the keyword of JSON Schema.
    if (value !== undefined && !(keyword === "required" && !Array.isArray(value))) schema[keyword] = value
  }
  if (Object.keys(schema).length === 0) return null
  const problem = schemaProblem(schema)
  if (problem === null) return schema
  problems.add(path, problem)
  return null
}

/** Checks the default and the choices of a param against its type. */
const checkValues = ({ problems }: CompileContext, spec: ParamSpec, path: Path): void => {
  if (spec.default !== undefined && spec.default !== null) {
    const problem = valueProblem(spec, spec.default)
    if (problem !== null) problems.add([...path, "default"], problem)
  }
  for (const [i, value] of (spec.enum ?? []).entries()) {
    const problem = valueProblem({ name: spec.name, type: spec.type, required: false }, value)
    if (problem !== null) problems.add([...path, "enum", i], problem)
  }
}

const isParamType = (value: unknown): value is ParamType => PARAM_TYPES.some((type) => type === value)

/** Returns the type of all choices; `enum` when their types differ. */
const commonType = (values: Json[] | undefined): ParamType | undefined => {
  if (values === undefined) return undefined
  const types = new Set(values.map(typeOf))
  if (types.size === 1) return [...types][0] ?? "enum"
  return types.size === 2 && types.has("integer") && types.has("number") ? "number" : "enum"
}

/** Returns the problem of `start` or `end` of a schedule, or null. */
export const dateProblem = (text: string): string | null =>
  isDateText(text) ? null : "must be a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)"
