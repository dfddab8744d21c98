import { expect, test } from "vitest"
import { controlOf, defaultsOf, type Param, readEditor, readField, readForm, textOf, textsOf } from "./form.ts"

const param = (change: Partial<Param>): Param => ({
  name: "p",
  type: "string",
  required: false,
  default: null,
  enum: null,
  description: null,
  schema: null,
  ...change,
})

test("each type gets its control", () => {
  expect(
    (["string", "integer", "number", "boolean", "date", "array", "object"] as const).map((type) => controlOf(param({ type }))),
  ).toEqual(["text", "number", "number", "boolean", "date", "json", "json"])
  expect(controlOf(param({ enum: ["eu", "us"] }))).toBe("choice")
})

test.each([
  [param({ type: "integer" }), "12", { value: 12 }],
  [param({ type: "integer" }), "1.5", { problem: "must be a whole number" }],
  [param({ type: "number" }), "1.5e2", { value: 150 }],
  [param({ type: "number" }), "many", { problem: "must be a number" }],
  [param({ type: "boolean" }), "false", { value: false }],
  [param({ type: "date" }), "2026-01-31", { value: "2026-01-31" }],
  [param({ type: "date" }), "tomorrow", { problem: "must be a day such as 2026-01-31" }],
  [param({ type: "array" }), "[1]", { value: [1] }],
  [param({ type: "array" }), "{}", { problem: "must be a list: [ … ]" }],
  [param({ type: "object" }), "[]", { problem: "must be an object: { … }" }],
  [param({ enum: [1, 2], type: "integer" }), "2", { value: 2 }],
  [param({ enum: ["eu"] }), "us", { problem: "must be one of eu" }],
  [param({ required: true }), "", { problem: "is required" }],
  [param({}), "", { absent: true }],
  [param({ type: "integer", schema: { minimum: 1, maximum: 9 } }), "10", { problem: "must be at most 9" }],
  [param({ schema: { pattern: "^a+$" } }), "b", { problem: "must match ^a+$" }],
  [param({ schema: { pattern: "(" } }), "b", { value: "b" }],
])("%j with the text %j is read as %j", (spec, text, reading) => {
  expect(readField(spec, text)).toEqual(reading)
})

test("invalid JSON is reported with its position", () => {
  expect(readField(param({ type: "object" }), '{"a": }')).toEqual({ problem: expect.stringMatching(/^is not JSON: /) })
})

const PARAMS = [
  param({ name: "date", type: "date", required: true }),
  param({ name: "limit", type: "integer", default: 100 }),
  param({ name: "tags", type: "array", default: ["a"] }),
]

test("defaults fill the form, and all problems are reported at once", () => {
  const texts = textsOf(PARAMS, defaultsOf(PARAMS))
  expect(texts).toEqual({ date: "", limit: "100", tags: '[\n  "a"\n]' })
  expect(readForm(PARAMS, { ...texts, limit: "x" })).toEqual({
    params: { tags: ["a"] },
    problems: { date: "is required", limit: "must be a number" },
  })
})

test("the params of an earlier run are restored", () => {
  const values = { date: "2026-01-31", limit: 7, tags: [1, { b: null }] }
  expect(readForm(PARAMS, textsOf(PARAMS, values))).toEqual({ params: values, problems: {} })
})

test("the editor accepts only an object of known params", () => {
  expect(readEditor(PARAMS, '{"limit": 5}')).toEqual({ params: { limit: 5 } })
  expect(readEditor(PARAMS, "[]")).toEqual({ problem: "The params must be an object: { … }" })
  expect(readEditor(PARAMS, '{"limti": 5}')).toEqual({ problem: "There is no param limti" })
  expect(readEditor(PARAMS, "{")).toEqual({ problem: expect.stringMatching(/^Not JSON/) })
})

test("a choice that is not a string is shown as JSON", () => {
  expect(textOf(param({ enum: [1, true, "x"] }), true)).toBe("true")
})
