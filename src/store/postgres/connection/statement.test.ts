import { describe, expect, it } from "vitest"
import { bind, hasParam, statement } from "./statement.ts"

describe("statement", () => {
  it("numbers parameters by name and repeats the declared type", () => {
    const found = statement(
      "a",
      "SELECT :rows::bigint[], :now, cardinality(:rows), x::int FROM t WHERE key = 'q:name' AND at < :now",
    )
    expect(found.text).toBe(
      "SELECT $1::bigint[], $2, cardinality($1::bigint[]), x::int FROM t WHERE key = 'q:name' AND at < $2",
    )
    expect(hasParam(found, "now")).toBe(true)
    expect(hasParam(found, "name")).toBe(false)
  })

  it("rejects a second statement with the same name", () => {
    statement("twice", "SELECT 1")
    expect(() => statement("twice", "SELECT 2")).toThrow("two statements are named twice")
  })

  it("takes a type that only a later use declares", () => {
    expect(statement("b", "SELECT :row, :row::bigint").text).toBe("SELECT $1::bigint, $1::bigint")
  })
})

describe("bind", () => {
  const columns = statement("columns", "SELECT * FROM unnest(:ids::bigint[], :texts::text[]) WHERE :flag::boolean")

  it("encodes arrays by their declared type", () => {
    expect(bind(columns, { ids: [1, null], texts: ['a"b', null], flag: true })).toEqual(["{1,NULL}", '{"a\\"b",NULL}', true])
  })

  it("sends an array of nulls as NULL and an empty one as an empty array", () => {
    expect(bind(columns, { ids: [], texts: [null, null], flag: null })).toEqual(["{}", null, null])
  })

  it("throws when a value is missing", () => {
    expect(() => bind(columns, { ids: [], flag: true })).toThrow("statement columns has no value for :texts")
  })
})
