import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseCel, fromCel, toCel } from "./cel.ts"
import {
  evaluate,
  ExpressionError,
  isBounded,
  narrowScope,
  parseExpression,
  render,
  type ExpressionScope,
  toText,
} from "./expressions.ts"
import type { Json } from "../values/json.ts"

const scope: ExpressionScope = {
  params: { limit: 100, ratio: 0.5, name: "eu", list: [1, 2, 3], "a-b": { c: true }, max: 2 ** 53 - 1, none: null },
  tasks: { fetch: { output: { rows: [{ id: 7 }] }, status: "success" }, "my-task": { output: null, status: "skipped" } },
  run: {
    id: "run-1",
    workflow: "etl",
    logical_date: "2026-01-02T00:00:00.000Z",
    date: "2026-01-02",
    trigger: "manual",
    cause: null,
  },
  item: { file: "a.csv" },
  index: 4,
}

describe("expressions", () => {
  it.each([
    ["params.limit", 100],
    ["params.limit + 1", 101],
    ["params.limit / 3", 33],
    ["params.limit > 10 && params.name == 'eu'", true],
    ["params.ratio * 2.0", 1],
    ["double(params.limit) * params.ratio", 50],
    ["params['a-b'].c", true],
    ['params["a-b"]', { c: true }],
    ["params.none", null],
    ["params.none == null", true],
    ["tasks.fetch.output.rows[0].id", 7],
    ["tasks.fetch.output.rows.map(r, r.id * 2)", [14]],
    ['tasks["my-task"].status', "skipped"],
    ["tasks.fetch.status == 'success' ? 'yes' : 'no'", "yes"],
    ["has(item.file) && !has(item.size)", true],
    ["item.file.endsWith('.csv')", true],
    ["item.file.split('.')[0]", "a"],
    ["index", 4],
    ["run.date + '/' + string(index)", "2026-01-02/4"],
    ["{'a': [1, 2.5], 'b': {'c': null}}", { a: [1, 2.5], b: { c: null } }],
    ["size(params.list)", 3],
    ["params.list.filter(x, x > 1)", [2, 3]],
    ["timestamp('2026-01-02T03:04:05Z') + duration('60s')", "2026-01-02T03:05:05.000Z"],
    ["duration('90s')", "90s"],
    ['"n=" + ((params.limit) == null ? "" : string(params.limit))', "n=100"],
    ['"n=" + ((params.none) == null ? "" : string(params.none))', "n="],
    ["1u + 2u", 3],
  ] as [string, Json][])("%s is %j", (source, expected) => {
    expect(evaluate(source, scope)).toEqual(expected)
  })

  it.each([
    ["int('42') + int('-2')", 40],
    ["double('1e3') + double('-.5')", 999.5],
    ["has(params.none) && 'none' in params", true],
    ["has(params.missing)", false],
    ["timestamp('2024-02-29T00:00:00+01:00')", "2024-02-28T23:00:00.000Z"],
    ["timestamp(90)", "1970-01-01T00:01:30.000Z"],
    ["matches('abc', 'b.') && 'abc'.matches('^a')", true],
    ["'x😀y'.substring(1, 2) + 'x😀y'.charAt(2)", "😀y"],
    ["['x😀y'.indexOf('y'), 'y😀y'.lastIndexOf('y'), 'yay'.lastIndexOf('y', 1), 'abc'.indexOf('z')]", [2, 2, 0, -1]],
    ["strings.quote('a\\nb')", '"a\\nb"'],
    ["'a,b,c'.split(',', 2)", ["a", "b,c"]],
    ["'a,b,c'.split(',', -1).size() + 'x'.split(',', 0).size()", 3],
    ["'aXbXc'.replace('X', '$&', 1)", "a$&bXc"],
    ["'aXbXc'.replace('X', '-', -1) + 'abc'.replace('', '.')", "a-b-c.a.b.c."],
  ] as [string, Json][])("follow the specification of CEL: %s is %j", (source, expected) => {
    expect(evaluate(source, scope)).toEqual(expected)
  })

  it.each([
    ["int('')", '"" is not a whole number'],
    ["int('0x10')", '"0x10" is not a whole number'],
    ["uint('-1')", '"-1" is not a whole number'],
    ["double('abc')", '"abc" is not a number'],
    ["double('')", '"" is not a number'],
    ["timestamp('2026-02-30T00:00:00Z')", "is not a time such as"],
    ["timestamp('2026-01-01')", "is not a time such as"],
    ["'abc'.substring(4)", "index 4"],
    ["'abc'.substring(2, 1)", "index 1"],
    ["'abc'.charAt(-1)", "index -1"],
  ])("follow the specification of CEL: %s fails: %s", (source, reason) => {
    expect(() => evaluate(source, scope)).toThrow(reason)
  })

  it("take params of type number as doubles, also when they are whole", () => {
    const number = { ...scope, params: { r: 1, n: 1, none: null }, doubles: ["r", "none"] }
    expect(evaluate("params.r / 2.0", number)).toBe(0.5)
    expect(evaluate("params.n / 2", number)).toBe(0)
    expect(evaluate("params.r > 0 && params.none == null", number)).toBe(true)
    expect(() => evaluate("params.r / 2", number)).toThrow("convert one of them")
  })

  it.each([
    ["params.limt", 'params has no field "limt" (it has limit, ratio, name'],
    ["tasks.fetch.output.rows[3].id", "tasks.fetch.output.rows has no index 3 (it is a list of 1)"],
    ["params.name.x", 'params.name has no field "x" (it is a string)'],
    ["params.none.x", 'params.none has no field "x" (it is null)'],
    ["parent.item", "parent is not defined here"],
    ["params.limt + 1", 'params has no field "limt"'],
    ["params.ratio + params.limit", "+ does not accept (double, int); convert one of them with double(…) or int(…)"],
    ["params.list[7] + 1", "there is no index 7"],
    ["1 / 0", "divide by zero"],
    ["params.max + 1", "exceeds the integers that JSON represents exactly"],
    ["type(1)", "the type int"],
    ["1.0 / 0.0", "not a JSON number"],
    ["params.limit +", "not a valid expression, at character"],
    ["", "the expression is empty"],
    ["x".repeat(9000), "longer than 8192 characters"],
    [`${"(".repeat(4000)}1${")".repeat(4000)}`, "nested too deeply"],
  ])("%s fails with the reason: %s", (source, reason) => {
    const attempt = (): Json => evaluate(source, scope)
    expect(attempt).toThrow(ExpressionError)
    expect(attempt).toThrow(reason)
    expect(attempt).toThrow(`\${{ ${source.slice(0, 30)}`)
  })

  it.each([
    ["params.a.b[0]['c d']", true],
    ["params.a + 1 > 2 && item.x in [1, 2]", true],
    ["params.list.map(x, x)", false],
    ["params.list.all(x, x > 1)", false],
    ["has(params.x)", true],
    ["params.name.matches('a*')", false],
    ["params.name.replace('a', 'aaaa')", false],
  ])("%s is bounded: %s", (source, expected) => {
    expect(isBounded(source)).toBe(expected)
  })

  it("list what they read, without the variables of their own loops", () => {
    const { refs } = parseExpression(
      "tasks['a-b'].output.map(o, o.x + params.n).exists(y, y == item) && run.id != tasks.c.status",
    )
    expect(refs).toEqual([
      { root: "tasks", path: ["a-b", "output"] },
      { root: "params", path: ["n"] },
      { root: "item", path: [] },
      { root: "run", path: ["id"] },
      { root: "tasks", path: ["c", "status"] },
    ])
  })

  it("map and filter long lists", () => {
    const item = Array.from({ length: 20_000 }, (_, i) => i)
    expect(evaluate("item.map(x, x + 1)", { ...scope, item })).toEqual(item.map((x) => x + 1))
    expect(evaluate("item.filter(x, x % 3 == 0)", { ...scope, item })).toEqual(item.filter((x) => x % 3 === 0))
  })

  it("do not change a list when an item is added", () => {
    expect(evaluate("[[1] + [2]].map(l, [l + [3], l + [4, 5], l, [] + l + []])", scope)).toEqual([
      [
        [1, 2, 3],
        [1, 2, 4, 5],
        [1, 2],
        [1, 2],
      ],
    ])
    const lists = fc.array(fc.array(fc.nat(9), { maxLength: 5 }), { minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(lists, (parts) => {
        const source = parts.map((part) => JSON.stringify(part)).join(" + ")
        expect(evaluate(source, scope)).toEqual(parts.flat())
      }),
    )
  })

  it("need only the part of the scope that they read", () => {
    const { refs } = parseExpression("tasks.fetch.output.rows[0].id + params.limit > 1 && has(item.file)")
    expect(narrowScope({ ...scope, item: { file: "a", size: 3 } }, refs)).toEqual({
      params: { limit: 100 },
      tasks: { fetch: { output: scope.tasks["fetch"]!.output } },
      run: scope.run,
      item: { file: "a" },
      index: 4,
    })
    expect(evaluate("size(params)", scope)).toBe(7)
    expect(evaluate("params[run.trigger == 'manual' ? 'name' : 'limit']", scope)).toBe("eu")
  })

  it("see no inherited properties", () => {
    for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
      expect(() => evaluate(`params.${name}`, scope)).toThrow(ExpressionError)
      expect(() => evaluate(`[params.${name}]`, scope)).toThrow(ExpressionError)
    }
  })

  it("evaluate plain paths as CEL does", () => {
    const key = fc.constantFrom("a", "b", "x y", "constructor")
    const value = fc.letrec<{ json: Json }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 3, withCrossShrink: true },
        fc.constantFrom<Json>(null, true, 0, -3, 2 ** 53 - 1, 1.5, "", "text"),
        fc.array(tie("json"), { maxLength: 3 }),
        fc.dictionary(key, tie("json"), { maxKeys: 3 }),
      ),
    })).json
    const step = fc.oneof(
      key.map((name) => `["${name}"]`),
      fc.constantFrom(".a", ".b", "[0]", "[2]"),
    )
    fc.assert(
      fc.property(value, fc.array(step, { maxLength: 4 }), (item, steps) => {
        const source = `item${steps.join("")}`
        const slow = (): Json => fromCel(parseCel(source).program()({ item: toCel(item) }))
        const attempt = (way: () => Json): Json => {
          try {
            return way()
          } catch {
            return "failed"
          }
        }
        expect(parseExpression(source).path).not.toBeNull()
        expect(attempt(() => evaluate(source, { ...scope, item }))).toEqual(attempt(slow))
      }),
      { numRuns: 500 },
    )
  })
})

describe("templates", () => {
  it("keep the type of a single expression and join parts to a text", () => {
    const template = {
      map: {
        whole: { expr: "params.list" },
        text: { text: ["n=", { expr: "params.limit" }, " none=", { expr: "params.none" }, " list=", { expr: "params.list" }] },
        list: { list: [{ lit: null }, { expr: "item.file" }] },
      },
    }
    expect(render(template, scope)).toEqual({
      whole: [1, 2, 3],
      text: "n=100 none= list=[1,2,3]",
      list: [null, "a.csv"],
    })
  })

  it("render scalars as text, null as an empty text, the rest as JSON", () => {
    expect([null, true, 1.5, "a b", [1], { a: 1 }].map(toText)).toEqual(["", "true", "1.5", "a b", "[1]", '{"a":1}'])
  })
})

it("matches patterns in time proportional to the text", () => {
  const scope = { params: { v: `${"a".repeat(20_000)}!` }, tasks: {}, run: {} } as never
  expect(evaluate("params.v.matches('^(a+)+$')", scope)).toBe(false)
  expect(evaluate("matches('abc', '^a.c$')", scope)).toBe(true)
  expect(() => evaluate("params.v.matches('(?=a)')", scope)).toThrow("RE2")
})
