// Validates params, query and body of a request against the schemas of its route. Reports many problems at once.

import { z } from "zod"
import { pathText, type Problem } from "../../core/model/problems.ts"
import { problemsOfIssues } from "../../definition/schema-issues.ts"
import { invalid } from "../shared/errors.ts"

export const validate = <Schema extends z.ZodType>(schema: Schema, value: unknown, maxProblems?: number): z.output<Schema> => {
  const parsed = schema.safeParse(value, { reportInput: true })
  if (parsed.success) return parsed.data
  throw invalid(
    problemsOfIssues(parsed.error.issues).map(({ path, message, suggestion }): Problem => ({
      path: pathText(path),
      message,
      ...(suggestion !== undefined && { suggestion }),
    })),
    maxProblems,
  )
}

type Query = { [name: string]: unknown }
export type QueryParser = (query: unknown) => unknown

/** Returns a parser that converts the texts of number and boolean fields. Leaves a text that does not parse to the validation. */
export const queryParser = (schema: z.ZodType): QueryParser => {
  const shape = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }).properties ?? {}
  const typeOf = (name: string): unknown => {
    const field = Object.hasOwn(shape, name) ? shape[name] : undefined
    return typeof field === "object" ? field.type : undefined
  }
  return (query) =>
    Object.fromEntries(Object.entries(query as Query).map(([name, value]) => [name, parseValue(value, typeOf(name))]))
}

const BOOLEANS = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
])

const parseValue = (value: unknown, type: unknown): unknown => {
  if (typeof value !== "string") return value
  if (type === "integer" || type === "number") return /^-?\d{1,16}(\.\d+)?$/.test(value) ? Number(value) : value
  return type === "boolean" ? (BOOLEANS.get(value) ?? value) : value
}
