import { expect, test } from "vitest"
import { limitsOf } from "./key-limits.ts"

test("names and tags are separated by commas, and empty ones set no limit", () => {
  expect(limitsOf("read", " sales-* , etl,, ", "")).toEqual({ workflows: ["sales-*", "etl"] })
  expect(limitsOf("admin", "", "team-a")).toEqual({ tags: ["team-a"] })
  expect(limitsOf("trigger", " , ", " ")).toEqual({})
})

test("a worker has no limits, also if its form has texts of another scope", () => {
  expect(limitsOf("worker", "etl", "team-a")).toEqual({})
})
