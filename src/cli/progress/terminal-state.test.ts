import { expect, test } from "vitest"
import { applyEvent, endedCount, newTerminalRun, type TerminalRun, stateOf } from "./terminal-state.ts"
import { event, RUN, type Sketch, T0, workflowOf } from "../../../test/support/view-sketch.ts"

const after = (sketch: { [name: string]: Sketch }, ...events: ReturnType<typeof event>[]): TerminalRun => {
  const view = newTerminalRun(RUN, workflowOf(sketch))
  for (const each of events) applyEvent(view, each)
  return view
}

test("a task is pending, dispatched, running, then ended", () => {
  const view = newTerminalRun(RUN, workflowOf({ a: {} }))
  const task = view.byName.get("a")!
  const states = [stateOf(task)]
  for (const status of ["dispatched", "running", "success"]) {
    applyEvent(view, event(1, `a ${status}`))
    states.push(stateOf(task))
  }
  expect(states).toEqual(["pending", "dispatched", "running", "success"])
  expect(task.live.size).toBe(0)
})

test("a task that will be retried is waiting, with the time of its retry", () => {
  const view = after(
    { a: {} },
    event(1, "a running"),
    event(2, "a pending", { availableAt: new Date(T0 + 7000).toISOString(), error: "exit code 1" }),
  )
  const task = view.byName.get("a")!
  expect(stateOf(task)).toBe("waiting")
  expect(task.live.get("")?.retryAt).toBe(T0 + 7000)
  applyEvent(view, event(7, "a running", { attempt: 2 }))
  expect([stateOf(task), task.attempt, task.error]).toEqual(["running", 2, null])
})

test("the status and times of the run come from its own events", () => {
  const view = after({ a: {} }, event(0, "run running"), event(5, "run failed", { error: "a failed" }))
  expect([view.status, view.startedAt, view.finishedAt, view.error]).toEqual(["failed", T0, T0 + 5000, "a failed"])
})

test("a fan-out counts its instances and is running until its container has ended", () => {
  const view = after(
    { a: { foreach: true } },
    event(1, "a running", { total: 3 }),
    event(1, "a/0 running"),
    event(1, "a/1 running"),
    event(2, "a/0 success"),
    event(2, "a/2 running"),
    event(3, "a/2 failed", { error: "boom" }),
    event(4, "a/1 success"),
  )
  const task = view.byName.get("a")!
  expect([endedCount(task), task.total, task.ended.failed]).toEqual([3, 3, 1])
  expect(task.failures).toEqual([{ path: "2", attempt: 1, error: "boom" }])
  expect(stateOf(task)).toBe("running")
  applyEvent(view, event(4, "a failed"))
  expect(stateOf(task)).toBe("failed")
})

test("the stored state of a fan-out does not grow with its ended instances", () => {
  const view = after({ a: { foreach: true } }, event(0, "a running", { total: 5000 }))
  for (let i = 0; i < 5000; i++) {
    applyEvent(view, event(1, `a/${i} running`))
    applyEvent(view, event(2, `a/${i} failed`, { error: "no" }))
  }
  const task = view.byName.get("a")!
  expect([task.live.size, task.failures.length, task.ended.failed]).toEqual([0, 100, 5000])
})

test("a skipped fan-out has no instances", () => {
  const view = after({ a: {}, b: { after: ["a"], foreach: true } }, event(1, "a failed"), event(1, "b skipped"))
  const task = view.byName.get("b")!
  expect([stateOf(task), endedCount(task)]).toEqual(["skipped", 0])
})

test("tasks inside a group with fan-out are counted over all items", () => {
  const view = after(
    { g: { foreach: true }, "g.a": { group: "g" } },
    event(1, "g running", { total: 2 }),
    event(1, "g.a/0 running"),
    event(2, "g.a/1 running"),
    event(3, "g.a/0 success"),
  )
  const inner = view.byName.get("g.a")!
  expect([inner.fanLevels, inner.depth, inner.ended.success, inner.live.size]).toEqual([1, 1, 1, 1])
  expect([view.byName.get("g")!.startedAt, stateOf(view.byName.get("g")!)]).toEqual([T0 + 1000, "running"])
})

test("events of other runs and of unknown tasks change nothing", () => {
  const view = after(
    { a: {} },
    { ...event(1, "a running"), runId: `${RUN.slice(0, -1)}1` as typeof RUN },
    event(1, "z running"),
  )
  expect(stateOf(view.byName.get("a")!)).toBe("pending")
})
