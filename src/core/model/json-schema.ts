// JSON Schema (draft 2020-12) by ajv, for task outputs, params and the schemas themselves. ajv is loaded on first use, because
// loading takes 25 to 60 ms. No other file imports it.

import { messageOf } from "./error-message.ts"
import { createRequire } from "node:module"
import type { ErrorObject, ValidateFunction } from "ajv"
import type { Json, JsonObject } from "./json.ts"

const require = createRequire(import.meta.url)

const createAjv = () => {
  const { Ajv2020 } = require("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js")
  return new Ajv2020({ strict: false, allErrors: true, validateFormats: false, logger: false, addUsedSchema: false })
}

let ajv: ReturnType<typeof createAjv> | undefined

const CACHE_SIZE = 500
const cache = new Map<string, ValidateFunction>()

const validator = (schema: JsonObject): ValidateFunction => {
  const key = JSON.stringify(schema)
  const known = cache.get(key)
  if (known !== undefined) return known
  // An ajv instance keeps every schema that it compiled, so it is replaced together with the cache.
  if (ajv === undefined || cache.size >= CACHE_SIZE) {
    ajv = createAjv()
    cache.clear()
  }
  const validate = ajv.compile(schema)
  cache.set(key, validate)
  return validate
}

/** Returns the problem of the schema itself, or null. */
export const schemaProblem = (schema: JsonObject): string | null => {
  try {
    validator(schema)
    return null
  } catch (error) {
    const message = messageOf(error)
    const invalid = /^schema is invalid: (.*)$/s.exec(message)?.[1]
    return invalid === undefined
      ? message
      : invalid
          .split(", data")[0]!
          .replace(/^data\/?/, "")
          .replaceAll("/", ".")
  }
}

/** Returns how the value violates the schema, or null. The schema must be valid. */
export const checkSchema = (schema: JsonObject, value: Json): string | null => {
  const validate = validator(schema)
  if (validate(value) === true) return null
  const errors = (validate.errors ?? []).slice(0, 5).map(describe)
  return [...new Set(errors)].join("; ")
}

const describe = ({ instancePath, message, keyword, params }: ErrorObject): string => {
  const field = instancePath === "" ? "" : `${instancePath.slice(1).replaceAll("/", ".")} `
  const detail =
    keyword === "enum"
      ? `: ${(params["allowedValues"] as Json[]).map((value) => JSON.stringify(value)).join(", ")}`
      : keyword === "additionalProperties"
        ? `: ${String(params["additionalProperty"])}`
        : ""
  return `${field}${message ?? "does not match the schema"}${detail}`
}
