import { expect, test } from "vitest"
import { timeLeft } from "./estimate.ts"
import { applyEvent, newTerminalRun } from "./terminal-state.ts"
import { event, RUN, type Sketch, T0, workflowOf } from "../../../test/support/view-sketch.ts"

const setup = (sketch: { [name: string]: Sketch }, ...events: ReturnType<typeof event>[]) => {
  const view = newTerminalRun(RUN, workflowOf(sketch))
  for (const each of events) applyEvent(view, each)
  return view
}

const left = (view: ReturnType<typeof setup>, seconds: number, means: { [task: string]: number }, slots = 16): number | null =>
  timeLeft(view, T0 + seconds * 1000, new Map(Object.entries(means)), slots)

test("without earlier runs there is no estimate", () => {
  expect(left(setup({ a: {} }), 0, {})).toBeNull()
})

test("a chain takes the sum of its tasks minus the elapsed time", () => {
  const chain = { a: {}, b: { after: ["a"] }, c: { after: ["b"] } }
  expect(left(setup(chain), 0, { a: 1, b: 2, c: 3 })).toBe(6000)
  expect(left(setup(chain, event(0, "a running"), event(1, "a success"), event(1, "b running")), 2, { a: 1, b: 2, c: 3 })).toBe(
    4000,
  )
})

test("parallel branches take as long as the longest one", () => {
  expect(left(setup({ a: {}, b: {}, c: { after: ["a", "b"] } }), 0, { a: 1, b: 5, c: 1 })).toBe(6000)
})

test("work that exceeds the slots is divided by them", () => {
  expect(left(setup({ a: {}, b: {}, c: {}, d: {} }), 0, { a: 2, b: 2, c: 2, d: 2 }, 2)).toBe(4000)
})

test("a fan-out runs its instances in batches of its own concurrency", () => {
  const view = setup({ a: { foreach: true, concurrency: 2 } }, event(0, "a running", { total: 10 }))
  expect(left(view, 0, { a: 3 })).toBe(15_000)
})

test("a task without history counts with the mean of all tasks", () => {
  expect(left(setup({ a: {}, b: { after: ["a"] } }), 0, { a: 4 })).toBe(8000)
})

test("a task that takes longer than before counts as zero, never as negative", () => {
  expect(left(setup({ a: {} }, event(0, "a running")), 60, { a: 1 })).toBe(0)
})

test("a group takes as long as the chain inside it", () => {
  const group = { g: {}, "g.a": { group: "g" }, "g.b": { group: "g", after: ["g.a"] }, end: { after: ["g"] } }
  expect(left(setup(group), 0, { "g.a": 1, "g.b": 2, end: 3 })).toBe(6000)
})

test("a chain of 20,000 tasks is estimated without a stack overflow", () => {
  const names = Array.from({ length: 20_000 }, (_, i) => `t${i}`)
  const workflow = workflowOf({ t0: {} })
  workflow.nodes = names.map((name, i) => ({
    ...workflow.nodes[0]!,
    name,
    upstream: i === 0 ? [] : [i - 1],
    downstream: i === names.length - 1 ? [] : [i + 1],
  }))
  expect(timeLeft(newTerminalRun(RUN, workflow), T0, new Map([["t0", 1]]), 16)).toBe(20_000_000)
})
