// The form of a workflow's params: controls, parsing and validation before submission. The
// server validates everything again, so only the common rules of JSON Schema are implemented here.

import type { Json, JsonObject, Workflow } from "../../api/types.ts"

export type Param = Workflow["params"][number]
export type Control = "text" | "number" | "choice" | "date" | "boolean" | "json"

export const controlOf = (param: Param): Control => {
  if (param.enum !== null) return "choice"
  switch (param.type) {
    case "string":
      return "text"
    case "integer":
    case "number":
      return "number"
    case "boolean":
      return "boolean"
    case "date":
      return "date"
    case "array":
    case "object":
      return "json"
    case "enum":
      return "choice"
    default:
      return param.type satisfies never
  }
}

/** Texts of the controls by param name; empty if not given. */
export type Texts = Readonly<Record<string, string>>

export type Reading = { value: Json } | { problem: string } | { absent: true }

const choiceText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))

/** Formats a value for its control. */
export const textOf = (param: Param, value: Json): string => {
  if (value === null) return ""
  switch (controlOf(param)) {
    case "json":
      return JSON.stringify(value, null, 2)
    case "choice":
      return choiceText(value)
    default:
      return typeof value === "string" ? value : JSON.stringify(value)
  }
}

export const textsOf = (params: readonly Param[], values: JsonObject): Texts =>
  Object.fromEntries(params.map((param) => [param.name, textOf(param, values[param.name] ?? null)]))

export const defaultsOf = (params: readonly Param[]): JsonObject =>
  Object.fromEntries(params.filter((param) => param.default !== null).map((param) => [param.name, param.default as Json]))

export const readField = (param: Param, text: string): Reading => {
  if (text.trim() === "") {
    if (!param.required) return { absent: true }
    return controlOf(param) === "text" && text !== "" ? { value: text } : { problem: "is required" }
  }
  const read = parse(param, text)
  if (!("value" in read)) return read
  const problem = ruleProblem(param.schema ?? {}, read.value)
  return problem === null ? read : { problem }
}

const parse = (param: Param, text: string): Reading => {
  switch (controlOf(param)) {
    case "text":
      return { value: text }
    case "number":
      return number(param, text)
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : { problem: "must be true or false" }
    case "date":
      return Number.isNaN(Date.parse(text)) ? { problem: "must be a day such as 2026-01-31" } : { value: text }
    case "choice": {
      const found = param.enum!.find((choice) => choiceText(choice) === text)
      return found === undefined
        ? { problem: `must be one of ${param.enum!.map(choiceText).join(", ")}` }
        : { value: found as Json }
    }
    case "json":
      return json(param, text)
  }
}

const number = (param: Param, text: string): Reading => {
  const value = Number(text)
  if (!Number.isFinite(value)) return { problem: "must be a number" }
  return param.type === "integer" && !Number.isSafeInteger(value) ? { problem: "must be a whole number" } : { value }
}

const json = (param: Param, text: string): Reading => {
  let value: Json
  try {
    value = JSON.parse(text) as Json
  } catch (error) {
    return { problem: `is not JSON: ${(error as Error).message}` }
  }
  const isList = Array.isArray(value)
  if (param.type === "array") return isList ? { value } : { problem: "must be a list: [ … ]" }
  return typeof value === "object" && value !== null && !isList ? { value } : { problem: "must be an object: { … }" }
}

const ruleProblem = (schema: Record<string, unknown>, value: Json): string | null => {
  const rule = (name: string): number | null => (typeof schema[name] === "number" ? schema[name] : null)
  if (typeof value === "number") {
    const [least, most] = [rule("minimum"), rule("maximum")]
    if (least !== null && value < least) return `must be at least ${least}`
    if (most !== null && value > most) return `must be at most ${most}`
  }
  if (typeof value === "string") {
    const [least, most] = [rule("minLength"), rule("maxLength")]
    if (least !== null && value.length < least) return `must have at least ${least} characters`
    if (most !== null && value.length > most) return `must have at most ${most} characters`
    if (typeof schema["pattern"] === "string" && !fits(schema["pattern"], value)) return `must match ${schema["pattern"]}`
  }
  return null
}

const fits = (pattern: string, value: string): boolean => {
  try {
    return new RegExp(pattern, "u").test(value)
  } catch {
    // The server checks patterns that this browser does not support.
    return true
  }
}

export interface ReadForm {
  params: JsonObject
  problems: Readonly<Record<string, string>>
}

export const readForm = (params: readonly Param[], texts: Texts): ReadForm => {
  const values: JsonObject = {}
  const problems: Record<string, string> = {}
  for (const param of params) {
    const read = readField(param, texts[param.name] ?? "")
    if ("value" in read) values[param.name] = read.value
    else if ("problem" in read) problems[param.name] = read.problem
  }
  return { params: values, problems }
}

/** Parses the JSON editor: an object of known params, or the problem. */
export const readEditor = (params: readonly Param[], text: string): { params: JsonObject } | { problem: string } => {
  let value: Json
  try {
    value = JSON.parse(text) as Json
  } catch (error) {
    return { problem: `Not JSON: ${(error as Error).message}` }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { problem: "The params must be an object: { … }" }
  const unknown = Object.keys(value).filter((name) => !params.some((param) => param.name === name))
  if (unknown.length > 0) return { problem: `There is no param ${unknown.join(", ")}` }
  return { params: value }
}
