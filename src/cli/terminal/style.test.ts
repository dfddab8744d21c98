import { expect, test } from "vitest"
import { paint, wantsColour } from "./style.ts"

test("spans are painted with colour and joined without", () => {
  expect(paint(["a ", ["b", "red"]], true)).toBe("a \u001b[31mb\u001b[39m")
  expect(paint(["a ", ["b", "red"]], false)).toBe("a b")
})

test("a line is truncated by its visible width; escape sequences do not count", () => {
  expect(paint([["abc", "red"], "def"], true, 5)).toBe("\u001b[31mabc\u001b[39md…")
  expect(paint([["abcdef", "red"], "ghi"], false, 4)).toBe("abc…")
  expect(paint(["abc", "def"], false, 3)).toBe("abc")
})

test("colour needs a capable terminal and no NO_COLOR", () => {
  expect(wantsColour({ isTTY: true }, {})).toBe(true)
  expect(wantsColour({ isTTY: true }, { NO_COLOR: "" })).toBe(true)
  expect(wantsColour({ isTTY: true }, { NO_COLOR: "1" })).toBe(false)
  expect(wantsColour({ isTTY: true }, { TERM: "dumb" })).toBe(false)
  expect(wantsColour({}, {})).toBe(false)
})
