import { describe, expect, it } from "vitest"
import { indexKey } from "./index-key.ts"

describe("indexKey", () => {
  it("returns a short text as it is", () => {
    expect(indexKey("customer 7")).toBe("customer 7")
    expect(indexKey("é".repeat(512))).toHaveLength(512)
  })

  it.each([
    ["a long text", "x".repeat(513)],
    ["a NUL character", "a\0b"],
    ["half of a surrogate pair", "a\uD800"],
  ])("hashes %s", (_, text) => {
    expect(indexKey(text)).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  it("keeps different texts apart", () => {
    const texts = ["x".repeat(513), `${"x".repeat(512)}y`, "a\0", "a\uD800", "a\uD801"]
    expect(new Set(texts.map(indexKey)).size).toBe(texts.length)
  })
})
