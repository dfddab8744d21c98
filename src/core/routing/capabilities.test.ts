import { expect, test } from "vitest"
import { accepts, lanesOf, type WorkerCapabilities, capabilitiesProblem } from "./capabilities.ts"

const gpu: WorkerCapabilities = { queues: ["a", "b"], labels: ["gpu", "eu"], handlers: ["mail"], capacity: 1, version: "1" }

test("a worker claims from its queues with every subset of its labels, and from the queues of its handlers", () => {
  expect(lanesOf(gpu)).toEqual([
    "q:a",
    "f:a||gpu",
    "f:a||eu",
    "f:a||eu,gpu",
    "q:b",
    "f:b||gpu",
    "f:b||eu",
    "f:b||eu,gpu",
    "h:mail",
  ])
})

test("a holder of all queues claims the work that needs no labels, and that of every subset of its labels", () => {
  expect(lanesOf({ queues: "all", labels: [], handlers: [] })).toEqual(["q:*"])
  expect(lanesOf({ queues: "all", labels: ["gpu", "eu"], handlers: [] })).toEqual(["q:*", "f:*||gpu", "f:*||eu", "f:*||eu,gpu"])
})

test("a holder accepts a task of its queues when it has all labels of the task", () => {
  expect(accepts(gpu, { queue: "a", labels: [] })).toBe(true)
  expect(accepts(gpu, { queue: "b", labels: ["eu", "gpu"] })).toBe(true)
  expect(accepts(gpu, { queue: "c", labels: [] })).toBe(false)
  expect(accepts(gpu, { queue: "a", labels: ["gpu", "big"] })).toBe(false)
  expect(accepts({ ...gpu, queues: "all" }, { queue: "c", labels: ["gpu"] })).toBe(true)
  expect(accepts({ ...gpu, queues: "all", labels: [] }, { queue: "c", labels: ["gpu"] })).toBe(false)
})

const call = { queue: "a", labels: [], executor: "function", function: "resize" }

test("a holder accepts the call of a function that it has registered, in its queues and with its labels", () => {
  const has = { ...gpu, functions: ["resize"] }
  expect(accepts(gpu, call)).toBe(false)
  expect(accepts({ ...gpu, queues: "all" }, call)).toBe(false)
  expect(accepts(has, call)).toBe(true)
  expect(accepts(has, { ...call, queue: "c" })).toBe(false)
  expect(accepts(has, { ...call, labels: ["big"] })).toBe(false)
  expect(lanesOf({ ...has, queues: ["a"], labels: ["gpu"] })).toEqual([
    "q:a",
    "f:a||gpu",
    "f:a|resize",
    "f:a|resize|gpu",
    "h:mail",
  ])
  expect(lanesOf({ ...has, queues: "all", labels: ["gpu"] })).toEqual([
    "q:*",
    "f:*||gpu",
    "f:*|resize",
    "f:*|resize|gpu",
    "h:mail",
  ])
})

test("a holder with functionsOnly accepts no other tasks", () => {
  const only = { ...gpu, functions: ["resize"], functionsOnly: true }
  expect(accepts(only, call)).toBe(true)
  expect(accepts(only, { queue: "a", labels: [], executor: "process" })).toBe(false)
  expect(lanesOf({ ...only, queues: ["a"], labels: [] })).toEqual(["f:a|resize", "h:mail"])
})

test("capabilities with too many lanes for a claim are a problem", () => {
  const functions = Array.from({ length: 100 }, (_, i) => `f${i}`)
  expect(capabilitiesProblem({ queues: ["a", "b"], labels: ["x", "y"], functions })).toBeNull()
  expect(capabilitiesProblem({ queues: ["a", "b"], labels: ["u", "v", "w", "x", "y"], functions })).toMatch(
    /^100 functions in 2 queues with 5 labels are too many/,
  )
  expect(capabilitiesProblem({ queues: "all", labels: ["x"], functions })).toBeNull()
})
