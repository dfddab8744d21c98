import { expect, test } from "vitest"
import { parseDataFile } from "./data-file.ts"

test("a file of names and values is read as YAML or JSON; an empty file has none", () => {
  expect(parseDataFile("limit: 5\nday: '2026-01-01'\n", "p.yaml")).toEqual({ limit: 5, day: "2026-01-01" })
  expect(parseDataFile('{ "limit": 5 }', "p.json")).toEqual({ limit: 5 })
  expect(parseDataFile("# nothing\n", "p.yaml")).toEqual({})
})

test.each([
  ["- a\n- b\n", "p.yaml", /p\.yaml: must hold names with values/],
  ["a: [1\n", "p.yaml", /^p\.yaml:\d+:\d+: the YAML cannot be parsed/],
  ["{", "p.json", /^p\.json:1:\d+: the JSON cannot be parsed/],
  ["a: 1\na: 2\n", "p.yaml", /p\.yaml:2:1: a: is defined twice/],
])("%j is rejected with the position of the problem", (text, name, message) => {
  expect(() => parseDataFile(text, name)).toThrow(message)
})
