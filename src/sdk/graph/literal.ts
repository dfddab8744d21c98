// Texts of a program in a definition, whose expressions they are not.

import { isObject, type Json } from "../../core/values/json.ts"

/** Writes a text of the program: `${{` in it is not an expression. */
export const literal = (text: string): string => text.replaceAll("${{", () => "$${{")

/** Writes all texts in a value of the program as literals. */
export const literalJson = (value: Json): Json => {
  if (typeof value === "string") return literal(value)
  if (Array.isArray(value)) return value.map(literalJson)
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, literalJson(item)])) : value
}
