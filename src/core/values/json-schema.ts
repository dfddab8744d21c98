// JSON Schema (draft 2020-12) by ajv, for task outputs, params and the schemas themselves. ajv is loaded on first use, because
// loading takes 25 to 60 ms. No other file imports it. A check takes time proportional to the value: patterns are evaluated by RE2, and
// the size of a schema is limited.

import { messageOf } from "./error-message.ts"
import { createRequire } from "node:module"
import type { ErrorObject, ValidateFunction } from "ajv"
import { isObject, type Json, type JsonObject } from "./json.ts"
import { compilePattern } from "./regex.ts"

const require = createRequire(import.meta.url)

const createAjv = () => {
  const { Ajv2020 } = require("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js")
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    validateFormats: false,
    logger: false,
    addUsedSchema: false,
    code: { regExp: Object.assign(compilePattern, { code: "compilePattern" }) },
  })
  // The keyword of ajv compares every item with every other one.
  ajv.removeKeyword("uniqueItems")
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (wanted: boolean, items: Json[]) => !wanted || new Set(items.map(canonical)).size === items.length,
    error: { message: "must NOT have duplicate items" },
  })
  return ajv
}

/** Returns the same text for equal values. */
const canonical = (value: Json): string =>
  JSON.stringify(value, (_, part: Json) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1))) : part,
  )

/** Limits of a schema: ajv compiles it to code, in more time and memory than its text suggests. */
const MAX_BYTES = 256 * 1024
const MAX_KEYWORDS = 5000
const MAX_PATTERNS = 20

const sizeProblem = (schema: JsonObject): string | null => {
  let keywords = 0
  let patterns = 0
  const open: Json[] = [schema]
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue
    const entries = Object.entries(part)
    keywords += entries.length
    if (!Array.isArray(part)) {
      if (typeof part["pattern"] === "string") patterns++
      if (isObject(part["patternProperties"])) patterns += Object.keys(part["patternProperties"]).length
    }
    if (keywords > MAX_KEYWORDS) return `it has more than ${MAX_KEYWORDS} keywords and values`
    if (patterns > MAX_PATTERNS) return `it has more than ${MAX_PATTERNS} patterns`
    for (const [, value] of entries) open.push(value)
  }
  return JSON.stringify(schema).length > MAX_BYTES ? "it is larger than 256 KiB" : null
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
  const tooLarge = sizeProblem(schema)
  if (tooLarge !== null) return tooLarge
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
