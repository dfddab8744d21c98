import { expect, it } from "vitest"
import { nearest } from "./nearest.ts"

const known = ["depends_on", "command", "retries", "retry", "timeout"]

it.each([
  ["depend_on", "depends_on"],
  ["dependson", "depends_on"],
  ["comand", "command"],
  ["Command", "command"],
  ["timeuot", "timeout"],
  ["retrys", "retry"],
  ["zzz", undefined],
  ["", undefined],
  ["x".repeat(1000), undefined],
])("the nearest name to %j is %j", (name, expected) => {
  expect(nearest(name, known)).toBe(expected)
})
