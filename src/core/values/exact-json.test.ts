import fc from "fast-check"
import { expect, test } from "vitest"
import { InexactNumber, parseExactJson } from "./exact-json.ts"

test.each(["9007199254740993", "[1, -9007199254740993]", '{"id": 12345678901234567890}', "[1e400]", "1152921504606846976"])(
  "%s is rejected, because a number in it would change",
  (text) => {
    expect(() => parseExactJson(text)).toThrow(InexactNumber)
  },
)

test.each([
  "9007199254740991",
  "-9007199254740991",
  "9007199254740992",
  "100000000000000000000",
  '"12345678901234567890"',
  '{"12345678901234567890": 0.12345678901234567890}',
  "1e21",
  "-0",
])("%s is accepted", (text) => {
  expect(parseExactJson(text)).toEqual(JSON.parse(text))
})

test("every value that JavaScript writes is read as it was", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value)
      expect(JSON.stringify(parseExactJson(text))).toBe(text)
    }),
  )
})
