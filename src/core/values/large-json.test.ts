import fc from "fast-check"
import { expect, test } from "vitest"
import { parseInPieces } from "./large-json.ts"

test("a text is parsed as JSON.parse does, however small the pieces are", () => {
  fc.assert(
    fc.property(
      fc.json({ maxDepth: 5 }),
      fc.constantFrom(undefined, 1, "\t"),
      fc.integer({ min: 1, max: 40 }),
      (json, space, maxPiece) => {
        const text = JSON.stringify(JSON.parse(json), null, space)
        expect(parseInPieces(Buffer.from(text), { maxPiece })).toEqual(JSON.parse(text))
      },
    ),
  )
})

test.each([
  "[]",
  "{}",
  " [ ] ",
  '""',
  "0",
  '{"__proto__":{"a":[1,2,3]},"b":"\\"]}"}',
  '[[[[[["\\\\"]]]]]]',
  '{"a":1,"a":[2,3]}',
  "[1,[],2]",
])("%s is parsed in the smallest pieces", (text) => {
  const parsed = parseInPieces(Buffer.from(text), { maxPiece: 1 })
  expect(parsed).toEqual(JSON.parse(text))
  expect(JSON.stringify(parsed)).toBe(JSON.stringify(JSON.parse(text)))
})

test("the caller is asked before each piece, and no piece is longer than allowed", () => {
  const text = JSON.stringify({ rows: Array.from({ length: 1000 }, (_, id) => ({ id })) })
  let pieces = 0
  expect(parseInPieces(Buffer.from(text), { maxPiece: 1000, check: () => void pieces++ })).toEqual(JSON.parse(text))
  expect(pieces).toBeGreaterThanOrEqual(text.length / 1000)
  const stop = (): never => {
    throw new Error("too much")
  }
  expect(() => parseInPieces(Buffer.from(text), { maxPiece: 1000, check: stop })).toThrow("too much")
})
