import { expect, test } from "vitest"
import { canTake, lanesOf, type Serves } from "./serves.ts"

const gpu: Serves = { queues: ["a", "b"], labels: ["gpu", "eu"], handlers: ["mail"], capacity: 1, version: "1" }

test("the lanes of a worker are its queues with every set of its labels, and its handlers' queues", () => {
  expect(lanesOf(gpu)).toEqual(["q:a", "q:a|gpu", "q:a|eu", "q:a|eu,gpu", "q:b", "q:b|gpu", "q:b|eu", "q:b|eu,gpu", "h:mail"])
  expect(lanesOf({ queues: "all", labels: "all", handlers: [] })).toEqual(["q:*"])
})

test("a task goes to those who serve its queue and have all of its labels", () => {
  expect(canTake(gpu, { queue: "a", labels: [] })).toBe(true)
  expect(canTake(gpu, { queue: "b", labels: ["eu", "gpu"] })).toBe(true)
  expect(canTake(gpu, { queue: "c", labels: [] })).toBe(false)
  expect(canTake(gpu, { queue: "a", labels: ["gpu", "big"] })).toBe(false)
  expect(canTake({ ...gpu, queues: "all", labels: "all" }, { queue: "c", labels: ["big"] })).toBe(true)
})
