// Converts issues of zod to problems: one for each unknown field, and for a union the problems of the alternative that was meant.

import type { z } from "zod"
import { quote } from "../core/compile/context/names.ts"
import { nearest } from "../core/values/nearest.ts"
import type { DefinitionProblem, Path } from "../core/model/problems.ts"

type Issue = z.core.$ZodIssue

export const problemsOfIssues = (issues: readonly Issue[], base: Path = []): DefinitionProblem[] =>
  issues.flatMap((issue) => problemsOfIssue(issue, [...base, ...(issue.path as (string | number)[])]))

const problemsOfIssue = (issue: Issue, path: Path): DefinitionProblem[] => {
  switch (issue.code) {
    case "unrecognized_keys": {
      const suggestions = issue.message.split("\n")
      return issue.keys.map((key, i) => ({
        path: [...path, key],
        message: `unknown field ${quote(key)}`,
        key: true,
        ...(suggestions[i] !== undefined && suggestions[i] !== "" && { suggestion: suggestions[i] }),
      }))
    }
    case "invalid_union": {
      const meant = issue.errors.filter(
        (branch) => !branch.some((inner) => inner.path.length === 0 && inner.code === "invalid_type"),
      )
      if (meant.length === 1) return problemsOfIssues(meant[0]!, path)
      return [{ path, message: `${issue.message}, but is ${describeValue(issue.input)}` }]
    }
    case "invalid_type":
      if (issue.input === undefined)
        return [{ path, message: `is missing (${NOUNS[issue.expected] ?? issue.expected})`, key: true }]
      return [{ path, message: `must be ${NOUNS[issue.expected] ?? issue.expected}, but is ${describeValue(issue.input)}` }]
    case "invalid_value": {
      const values = issue.values.map(String)
      const suggestion = typeof issue.input === "string" ? nearest(issue.input, values) : undefined
      return [{ path, message: `must be one of ${values.join(", ")}`, ...(suggestion !== undefined && { suggestion }) }]
    }
    case "too_small":
      return [{ path, message: `must be ${issue.origin === "array" ? "a list of " : ""}${issue.minimum} or more` }]
    case "too_big":
      return [{ path, message: `must be ${issue.maximum} or less` }]
    default:
      return [{ path, message: issue.message }]
  }
}

const NOUNS: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "a list",
}

const describeValue = (value: unknown): string => {
  if (value === null) return "empty"
  if (Array.isArray(value)) return "a list"
  switch (typeof value) {
    case "string":
      return `the text ${quote(value)}`
    case "number":
    case "boolean":
      return String(value)
    default:
      return "an object"
  }
}
