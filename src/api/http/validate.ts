// Checks params, query and body of a request against the schemas of its route; all that is wrong is told at once.

import { z } from "zod"
import { pathText, type Problem } from "../../core/model/problems.ts"
import { problemsOfIssues } from "../../definition/schema-issues.ts"
import { invalid } from "./errors.ts"

export const validate = <Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> => {
  const parsed = schema.safeParse(value, { reportInput: true })
  if (parsed.success) return parsed.data
  throw invalid(
    problemsOfIssues(parsed.error.issues).map(({ path, message, suggestion }): Problem => ({
      path: pathText(path),
      message,
      ...(suggestion !== undefined && { suggestion }),
    })),
  )
}

type Query = { [name: string]: unknown }
export type QueryParser = (query: unknown) => unknown

/** Query values arrive as text: those of number and boolean fields are read as such where they look it. */
export const queryParser = (schema: z.ZodType): QueryParser => {
  const shape = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }).properties ?? {}
  const typeOf = (name: string): unknown => {
    const field = Object.hasOwn(shape, name) ? shape[name] : undefined
    return typeof field === "object" ? field.type : undefined
  }
  return (query) => {
    const read: Query = {}
    for (const [name, value] of Object.entries(query as Query)) {
      const type = typeOf(name)
      if (typeof value !== "string") read[name] = value
      else if (type === "integer" || type === "number") read[name] = /^-?\d{1,16}(\.\d+)?$/.test(value) ? Number(value) : value
      else if (type === "boolean")
        read[name] = value === "true" || value === "1" ? true : value === "false" || value === "0" ? false : value
      else read[name] = value
    }
    return read
  }
}
