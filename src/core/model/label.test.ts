import { expect, test } from "vitest"
import { defaultLabel, labelOf } from "./label.ts"

test("a scalar item is its own label", () => {
  expect(["rome.csv", 7, true, 0].map(defaultLabel)).toEqual(["rome.csv", "7", "true", "0"])
})

test("an object is labelled by its name or id", () => {
  expect(defaultLabel({ id: 3, name: "rome" })).toBe("rome")
  expect(defaultLabel({ id: 3, name: { first: "x" } })).toBe("3")
})

test("other items have no label", () => {
  for (const item of [null, [1, 2], {}, { name: null }, "", " \n"]) expect(defaultLabel(item)).toBeNull()
})

test("a label is one line of at most 100 characters", () => {
  expect(labelOf("a\tb\r\nc\0")).toBe("a b c")
  expect(labelOf("é".repeat(101))).toBe(`${"é".repeat(99)}…`)
  expect(labelOf("😀".repeat(100))).toBe("😀".repeat(100))
  expect(labelOf("\ud800x")).toBe("\ufffdx")
})
