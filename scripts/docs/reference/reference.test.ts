import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { schemaText } from "../../../src/cli/commands/workflows/schema.ts"
import { generatedPages, withoutAlignment, withRegions } from "./regions.ts"

const REPO = join(import.meta.dirname, "../../..")

test.each(Object.entries(generatedPages()))("%s is up to date (npm run docs:reference)", (file, regions) => {
  const page = readFileSync(join(REPO, file), "utf8")
  expect(withoutAlignment(page)).toBe(withoutAlignment(withRegions(page, regions)))
})

test("a page that lacks a generated part is rejected", () => {
  expect(() => withRegions("<!-- generated: a --><!-- end -->", { b: "" })).toThrow("b, a")
})

test("every field in the JSON Schema of definitions has a description", () => {
  const missing: string[] = []
  const visit = (schema: unknown, path: string): void => {
    if (typeof schema !== "object" || schema === null) return
    const { properties } = schema as { properties?: Record<string, { description?: string }> }
    for (const [name, field] of Object.entries(properties ?? {})) {
      if (field.description === undefined) missing.push(`${path}.${name}`)
    }
    for (const [key, value] of Object.entries(schema)) visit(value, `${path}.${key}`)
  }
  visit(JSON.parse(schemaText()), "")
  expect(missing).toEqual([])
})
