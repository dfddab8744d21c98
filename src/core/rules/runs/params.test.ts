import { describe, expect, it } from "vitest"
import { bindParams, type GivenParams } from "./params.ts"
import type { ParamSpec } from "../../model/workflow.ts"

const param = (name: string, type: ParamSpec["type"], more: Partial<ParamSpec> = {}): ParamSpec => ({
  name,
  type,
  required: false,
  ...more,
})

const bind = (params: ParamSpec[], given: GivenParams) => bindParams({ params }, given)

const problemsOf = (params: ParamSpec[], given: GivenParams): string[] => {
  const bound = bind(params, given)
  return bound.ok ? [] : bound.problems.map(({ path, message, suggestion }) => `${path}: ${message} ${suggestion ?? ""}`.trim())
}

describe("params", () => {
  it("have their default, or null without one", () => {
    expect(bind([param("a", "integer", { default: 3 }), param("b", "string")], {})).toEqual({
      ok: true,
      params: { a: 3, b: null },
    })
  })

  it.each([
    ["string", "12", "12"],
    ["integer", "12", 12],
    ["integer", "-1e3", -1000],
    ["number", "1.5", 1.5],
    ["boolean", "true", true],
    ["boolean", "no", false],
    ["date", "2026-02-28", "2026-02-28"],
    ["array", "[1, 2]", [1, 2]],
    ["object", '{"a": 1}', { a: 1 }],
  ] as const)("read a %s from the text %s", (type, text, value) => {
    expect(bind([param("p", type)], { text: { p: text } })).toEqual({ ok: true, params: { p: value } })
  })

  it.each([
    ["integer", "12x", 'must be a whole number, but is "12x"'],
    ["integer", "1.5", "must be a whole number, but is 1.5"],
    ["integer", "", "must be a whole number"],
    ["number", "0x10", "must be a number"],
    ["boolean", "maybe", "must be true or false"],
    ["date", "2026-02-30", "must be a day"],
    ["date", "yesterday", "must be a day"],
    ["array", "1, 2", "must be a list as JSON"],
    ["array", "{}", "must be a list"],
    ["object", "[]", "must be an object"],
  ] as const)("of type %s reject the text %j", (type, text, reason) => {
    expect(problemsOf([param("p", type)], { text: { p: text } })).toEqual([expect.stringContaining(`params.p: ${reason}`)])
  })

  it("are checked when they are given as typed values", () => {
    expect(problemsOf([param("n", "integer")], { values: { n: "3" } })).toEqual([
      'params.n: must be a whole number, but is "3"',
    ])
    expect(bind([param("at", "date")], { values: { at: "2026-01-02T03:04:05Z" } }).ok).toBe(true)
  })

  it("report every problem at once", () => {
    const params = [
      param("day", "date", { required: true, description: "Day to load" }),
      param("limit", "integer", { schema: { minimum: 1 } }),
      param("region", "string", { enum: ["eu", "us"] }),
    ]
    expect(problemsOf(params, { text: { limit: "0", region: "xx", regoin: "eu" } })).toEqual([
      "params.limit: must be >= 1",
      'params.region: must be one of "eu", "us", but is "xx"',
      "params.regoin: is not a param of the workflow; it has day, limit, region region",
      "params.day: is required (date: Day to load)",
    ])
  })

  it("may be null unless they are required", () => {
    expect(problemsOf([param("a", "string", { required: true })], { values: { a: null } })).toHaveLength(1)
    expect(bind([param("a", "string", { default: "x" })], { values: { a: null } })).toEqual({ ok: true, params: { a: null } })
  })

  it("prefer text over values", () => {
    expect(bind([param("a", "integer")], { values: { a: 1 }, text: { a: "2" } })).toEqual({ ok: true, params: { a: 2 } })
  })

  it("ignore inherited names of objects", () => {
    expect(problemsOf([], { text: { constructor: "x" } })).toEqual(["params.constructor: the workflow has no params"])
  })
})

it("a param of the type enum takes a choice of any type, also as text", () => {
  const size = param("size", "enum", { enum: ["auto", 3, null, [1]] })
  for (const [text, value] of [
    ["auto", "auto"],
    ["3", 3],
    ["[1]", [1]],
  ] as const)
    expect(bind([size], { text: { size: text } })).toEqual({ ok: true, params: { size: value } })
  expect(bind([size], { values: { size: 3 } })).toEqual({ ok: true, params: { size: 3 } })
  expect(problemsOf([size], { values: { size: "3" } })).toEqual([
    'params.size: must be one of "auto", 3, null, [1], but is "3"',
  ])
})
