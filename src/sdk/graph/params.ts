// Converts the schema of a graph's params to the declarations of a definition, by means of its JSON Schema.

import { isObject, type Json, type JsonObject } from "../../core/values/json.ts"
import { PARAM_TYPES } from "../../core/model/workflow.ts"
import { InvalidDefinitionError } from "../errors.ts"
import type { StandardSchema } from "../schema.ts"

/** The part of Standard JSON Schema (https://standardschema.dev) that Ork uses. */
interface JsonSchemaSource {
  readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => unknown }
}

/** Keywords that a declaration takes over. The schema itself checks the rest when a run is enqueued. */
const KEYWORDS = [
  "description",
  "default",
  "enum",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
]
const DATE_FORMATS = ["date", "date-time"]

export const paramsOfSchema = (schema: StandardSchema, what: string, place: string): { [name: string]: Json } => {
  const problem = (path: string, message: string): InvalidDefinitionError =>
    new InvalidDefinitionError(what, [{ path, message, place }])
  const { jsonSchema } = schema["~standard"] as JsonSchemaSource
  if (jsonSchema === undefined) {
    throw problem(
      "params",
      "the schema cannot be written as JSON Schema; use zod 4.2, arktype 2.1.28 or toStandardJsonSchema of valibot, or newer",
    )
  }
  const { properties, required } = jsonSchema.input({ target: "draft-2020-12" }) as JsonObject
  if (!isObject(properties)) throw problem("params", "the schema must be an object with a field for each param")
  const needed = new Set(Array.isArray(required) ? required : [])
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const declared = isObject(property) ? declarationOf(property, needed.has(name)) : null
      if (declared === null) throw problem(`params.${name}`, `must have one of the types ${PARAM_TYPES.join(", ")}`)
      return [name, declared]
    }),
  )
}

/** Returns the declaration of one param; null for a type that params cannot have. */
const declarationOf = (property: JsonObject, isNeeded: boolean): JsonObject | null => {
  const plain = withoutNull(property)
  const { type, format } = plain
  const isKnown = typeof type === "string" && (PARAM_TYPES as readonly string[]).includes(type)
  if (!isKnown && plain["enum"] === undefined) return null
  const isDate = type === "string" && typeof format === "string" && DATE_FORMATS.includes(format)
  const kept = KEYWORDS.flatMap((keyword) => {
    const value = plain[keyword]
    return value === undefined || isSafeBound(value) ? [] : [[keyword, value] as const]
  })
  return {
    ...(isKnown && { type: isDate ? "date" : type }),
    // A param that is not required may be null.
    ...(isNeeded && plain === property && property["default"] === undefined && { required: true }),
    ...Object.fromEntries(kept),
  }
}

/** Schemas of whole numbers name the bounds that every whole number of JSON has. */
const isSafeBound = (value: Json): boolean => typeof value === "number" && Math.abs(value) === Number.MAX_SAFE_INTEGER

/** Returns the schema of a value that is not null; the given schema if it does not allow null. */
const withoutNull = (property: JsonObject): JsonObject => {
  const { anyOf, type, ...rest } = property
  if (Array.isArray(type) && type.length === 2 && type.includes("null")) {
    return { ...rest, type: type.find((each) => each !== "null")! }
  }
  if (!Array.isArray(anyOf)) return property
  const others = anyOf.filter((each) => !isObject(each) || each["type"] !== "null")
  return others.length === 1 && isObject(others[0]) ? { ...rest, ...others[0] } : property
}
