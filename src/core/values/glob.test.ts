import { expect, test } from "vitest"
import { expandBraces, fitsGlob } from "./glob.ts"

test.each([
  ["*", "a.csv", true],
  ["*.csv", "a.csv", true],
  ["*.csv", "a.csv.gz", false],
  ["a*b*c", "a-b-b-c", true],
  ["a*b*c", "a-c-b", false],
  ["?.csv", "ü.csv", true],
  ["?.csv", "aa.csv", false],
  ["[ab].csv", "b.csv", true],
  ["[a-c]x", "bx", true],
  ["[!a-c]x", "bx", false],
  ["[!a-c]x", "dx", true],
  ["[]a]", "]", true],
  ["[ab", "[ab", true],
  ["*", ".hidden", false],
  ["[.]hidden", ".hidden", false],
  [".*", ".hidden", true],
  ["", "", true],
])("the pattern %j for the name %j: %s", (pattern, name, fits) => {
  expect(fitsGlob(pattern)(name)).toBe(fits)
})

test("patterns that regular expressions would try in every combination are decided at once", () => {
  const begun = performance.now()
  expect(fitsGlob(`${"*a".repeat(100)}*b`)("a".repeat(255))).toBe(false)
  expect(performance.now() - begun).toBeLessThan(2000)
})

test("braces stand for each of their texts, at most 100 together", () => {
  expect(expandBraces("a/*.{csv,txt}").toSorted()).toEqual(["a/*.csv", "a/*.txt"])
  expect(expandBraces("{a,{b,c}}x").toSorted()).toEqual(["ax", "bx", "cx"])
  expect(expandBraces("{a}{")).toEqual(["{a}{"])
  expect(expandBraces("{1..3}")).toEqual(["{1..3}"])
  expect(() => expandBraces("{a,b}".repeat(7))).toThrow("stands for more than 100 others")
  expect(() => expandBraces(`{${",".repeat(900_000)}}`)).toThrow("stands for more than 100 others")
  expect(expandBraces(`{${",".repeat(900_000)}`)).toHaveLength(1)
})
