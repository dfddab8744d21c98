import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { jsonFaults } from "./json-text.ts"

describe("JSON text", () => {
  it("has no faults when no key stands twice", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 2, "\t"), (text, indent) => {
        const written = JSON.stringify(JSON.parse(text), null, indent)
        expect(jsonFaults(written).filter(({ message }) => !message.includes("__proto__"))).toEqual([])
      }),
    )
  })

  it("tells keys that stand twice, in whatever depth and spelling", () => {
    const text = '{"a": [{"b": 1}, {"b": "{", "\\u0062": {"c": 1}}], "d": {}, "a": 2}'
    expect(jsonFaults(text)).toEqual([
      { path: ["a", 1, "b"], message: "stands here twice", offset: 28, first: 18 },
      { path: ["a"], message: "stands here twice", offset: text.lastIndexOf('"a"'), first: 1 },
    ])
  })

  it("tells a key named __proto__, and nesting beyond the limit", () => {
    expect(jsonFaults('{"a": {"__proto__": 1}}')).toMatchObject([{ path: ["a", "__proto__"] }])
    expect(jsonFaults(`${"[".repeat(64)}${"]".repeat(64)}`)).toEqual([])
    expect(jsonFaults(`${"[".repeat(65)}${"]".repeat(65)}`)).toMatchObject([{ message: "nested more than 64 levels deep" }])
  })
})
