import fc from "fast-check"
import { expect, test } from "vitest"
import { isTooDeep } from "./body.ts"

const depth = (value: unknown): number =>
  typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0

test("the depth of a JSON text is checked without parsing it, and brackets in strings do not count", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(8), (value, max) => {
      const text = JSON.stringify(value)
      expect(isTooDeep(text, max)).toBe(text.length > max && depth(value) > max)
    }),
  )
  expect(isTooDeep('["[[[[","\\"[[[["]', 1)).toBe(false)
})
