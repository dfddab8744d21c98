import { describe, expect, it } from "vitest"
import { checkSchema, schemaProblem } from "./json-schema.ts"

describe("JSON Schemas", () => {
  const rows = { type: "object", required: ["rows"], properties: { rows: { type: "array", items: { type: "integer" } } } }

  it("report what violates them, and where", () => {
    expect(checkSchema(rows, { rows: [1, 2] })).toBeNull()
    expect(checkSchema(rows, {})).toBe("must have required property 'rows'")
    expect(checkSchema(rows, { rows: [1, "x"] })).toBe("rows.1 must be integer")
    expect(checkSchema(rows, null)).toBe("must be object")
    expect(checkSchema({ enum: ["a", 1] }, "b")).toBe('must be equal to one of the allowed values: "a", 1')
  })

  it("are validated themselves", () => {
    expect(schemaProblem(rows)).toBeNull()
    expect(schemaProblem({ prefixItems: [{ type: "string" }], unevaluatedItems: false })).toBeNull()
    expect(schemaProblem({ type: "objekt" })).toBe("type must be equal to one of the allowed values")
    expect(schemaProblem({ $ref: "#/nowhere" })).toContain("can't resolve reference")
    expect(schemaProblem({ pattern: "(" })).toContain('the pattern "(" is not valid')
  })

  it("with the same $id in two workflows do not clash", () => {
    expect(schemaProblem({ $id: "https://example.org/a", type: "string" })).toBeNull()
    expect(schemaProblem({ $id: "https://example.org/a", type: "number" })).toBeNull()
    expect(checkSchema({ $id: "https://example.org/a", type: "number" }, "x")).toBe("must be number")
  })

  it("evaluate patterns in time proportional to the text", () => {
    const began = performance.now()
    expect(checkSchema({ pattern: "^(a+)+$" }, `${"a".repeat(50_000)}!`)).toContain("must match pattern")
    expect(checkSchema({ pattern: "^(a+)+$" }, "aaa")).toBeNull()
    expect(checkSchema({ pattern: "^b$" }, "aaa")).toContain("must match pattern")
    expect(performance.now() - began).toBeLessThan(2000)
    expect(schemaProblem({ pattern: "(?=a)" })).toContain("the syntax is RE2")
  })

  it("compare the items of a list in time proportional to their number", () => {
    const items = Array.from({ length: 20_000 }, (_, i) => ({ a: i, b: 1 }))
    const began = performance.now()
    expect(checkSchema({ uniqueItems: true }, items)).toBeNull()
    expect(checkSchema({ uniqueItems: true }, [...items, { b: 1, a: 7 }])).toContain("duplicate")
    expect(performance.now() - began).toBeLessThan(4000)
  })

  it("are limited in size", () => {
    const keys = Array.from({ length: 20_000 }, (_, i) => [`^a${i}`, {}] as const)
    expect(schemaProblem({ patternProperties: Object.fromEntries(keys) })).toContain("patterns")
    expect(schemaProblem({ properties: Object.fromEntries(keys) })).toContain("keywords")
  })
})
