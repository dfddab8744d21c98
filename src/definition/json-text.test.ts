import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { jsonTextProblems } from "./json-text.ts"

describe("jsonTextProblems", () => {
  it("returns nothing for text without duplicate keys", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 2, "\t"), (text, indent) => {
        const written = JSON.stringify(JSON.parse(text), null, indent)
        expect(jsonTextProblems(written).filter(({ message }) => !message.includes("__proto__"))).toEqual([])
      }),
    )
  })

  it("returns duplicate keys at any depth and in any spelling", () => {
    const text = '{"a": [{"b": 1}, {"b": "{", "\\u0062": {"c": 1}}], "d": {}, "a": 2}'
    expect(jsonTextProblems(text)).toEqual([
      { path: ["a", 1, "b"], message: "is defined twice", offset: 28, first: 18 },
      { path: ["a"], message: "is defined twice", offset: text.lastIndexOf('"a"'), first: 1 },
    ])
  })

  it("returns keys named __proto__, and nesting beyond the limit", () => {
    expect(jsonTextProblems('{"a": {"__proto__": 1}}')).toMatchObject([{ path: ["a", "__proto__"] }])
    expect(jsonTextProblems(`${"[".repeat(64)}${"]".repeat(64)}`)).toEqual([])
    expect(jsonTextProblems(`${"[".repeat(65)}${"]".repeat(65)}`)).toMatchObject([
      { message: "is nested more than 64 levels deep" },
    ])
  })
})
