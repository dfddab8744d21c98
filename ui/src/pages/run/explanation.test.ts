import { expect, test } from "vitest"
import type { Explanation } from "../../api/types.ts"
import { explanationOf } from "./explanation.ts"

const item = (path: string, status: string): Explanation => ({ task: "load", path, status, sentence: `${path} ${status}` })
const ITEMS = [item("0", "success"), item("1", "failed"), { ...item("", "failed"), task: "other" }]

test("an instance is explained by its own sentence, never by that of another instance", () => {
  expect(explanationOf(ITEMS, { task: "load", path: "1", status: "failed" })?.sentence).toBe("1 failed")
  expect(explanationOf(ITEMS, { task: "load", path: "2", status: "failed" })).toBeUndefined()
})

test("a failed task with a successful instance is not explained as successful", () => {
  expect(explanationOf(ITEMS, { task: "load", path: "", status: "failed" })?.sentence).toBe("1 failed")
  expect(explanationOf(ITEMS, { task: "load", path: "", status: "running" })).toBeUndefined()
  expect(explanationOf(ITEMS, { task: "other", path: "", status: "failed" })?.task).toBe("other")
})
