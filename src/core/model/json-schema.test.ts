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
    expect(schemaProblem({ pattern: "(" })).toContain("Invalid regular expression")
  })

  it("with the same $id in two workflows do not clash", () => {
    expect(schemaProblem({ $id: "https://example.org/a", type: "string" })).toBeNull()
    expect(schemaProblem({ $id: "https://example.org/a", type: "number" })).toBeNull()
    expect(checkSchema({ $id: "https://example.org/a", type: "number" }, "x")).toBe("must be number")
  })
})
