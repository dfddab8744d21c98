import fc from "fast-check"
import { expect, test } from "vitest"
import { nameCursor, numberCursor, parseNameCursor, parseNumberCursor, parseTimeCursor, timeCursor } from "./cursors.ts"

test("a cursor is parsed to the position that it was made from", () => {
  fc.assert(
    fc.property(fc.date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true }), fc.uuid(), (date, id) => {
      const position = { createdAt: date.toISOString(), id }
      expect(parseTimeCursor(timeCursor(position))).toEqual(position)
      expect(parseTimeCursor(timeCursor(position).replaceAll("=", ""))).toEqual(position)
    }),
  )
  expect(parseNumberCursor("t", numberCursor("t", 42))).toBe(42)
  expect(parseNameCursor("w", nameCursor("w", "a.b-c"))).toBe("a.b-c")
})

test("every other text is rejected", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
      expect(() => parseTimeCursor(text)).toThrow(/cursor/)
      expect(() => parseNumberCursor("t", text)).toThrow(/cursor/)
      expect(() => parseNameCursor("w", text)).toThrow(/cursor/)
    }),
  )
  expect(() => parseNumberCursor("t", numberCursor("s", 42))).toThrow(/cursor/)
})
