import { expect, test } from "vitest"
import { applyEvents } from "./events.ts"
import { addInstances, completeState, runCounts } from "./state.ts"
import { retryAtOf, statusOf } from "./status.ts"
import { at, runEvent, stateOf, taskEvent } from "./testing.ts"

const loaded = (tasks: Parameters<typeof stateOf>[0], names: readonly string[] = Object.keys(tasks)) => {
  const state = stateOf(tasks)
  addInstances(
    state,
    names.map((name) => ({
      name,
      path: "",
      status: "pending",
      attempt: 0,
      label: null,
      available_at: null,
      waiting: null,
      dispatched_at: null,
      started_at: null,
      finished_at: null,
      past: [],
    })),
  )
  completeState(state)
  return state
}

test("an instance goes from waiting to running to finished, and the counts follow", () => {
  const state = loaded({ a: {}, b: { after: ["a"] } })
  const events = [taskEvent("a", "dispatched", 1), taskEvent("a", "running", 2), taskEvent("a", "success", 5)]
  expect(applyEvents(state, events, false)).toMatchObject({ changed: true, restarted: false })
  const a = state.byName.get("a")!
  expect(a.instances.get("")).toMatchObject({ status: "success", dispatchedAt: 1000, startedAt: 2000, finishedAt: 5000 })
  expect(statusOf(state, a)).toBe("success")
  expect(runCounts(state)).toMatchObject({ success: 1, pending: 1, running: 0, dispatched: 0 })
})

test("events older than the loaded data change nothing", () => {
  const state = loaded({ a: {} })
  applyEvents(state, [taskEvent("a", "running", 2, { attempt: 2 }), taskEvent("a", "failed", 5, { attempt: 2 })], false)
  for (const old of [
    taskEvent("a", "running", 2, { attempt: 2 }),
    taskEvent("a", "pending", 1, { available_at: at(3) }),
    taskEvent("a", "dispatched", 1),
  ]) {
    expect(applyEvents(state, [old], false).changed).toBe(false)
  }
  expect(runCounts(state)).toMatchObject({ failed: 1, pending: 0, running: 0 })
})

test("a failed attempt is kept, and its task waits for the retry", () => {
  const state = loaded({ a: {} })
  applyEvents(
    state,
    [
      taskEvent("a", "dispatched", 1),
      taskEvent("a", "running", 2),
      taskEvent("a", "pending", 4, { available_at: at(9), error: "exit 1" }),
    ],
    false,
  )
  const a = state.byName.get("a")!
  expect(retryAtOf(a)).toBe(9000)
  expect(a.instances.get("")).toMatchObject({ status: "pending", startedAt: null })
  expect(a.instances.get("")!.past).toEqual([
    { attempt: 1, status: "failed", dispatchedAt: 1000, startedAt: 2000, finishedAt: 4000 },
  ])
  applyEvents(state, [taskEvent("a", "dispatched", 9, { attempt: 2 })], false)
  expect(a.instances.get("")).toMatchObject({ attempt: 2, status: "dispatched", availableAt: null })
  expect(a.instances.get("")!.past).toHaveLength(1)
})

test("a task that fails in the millisecond of its start waits for its retry", () => {
  const state = loaded({ a: {} })
  const failed = taskEvent("a", "pending", 2, { available_at: at(9), error: "exit 1" })
  applyEvents(state, [taskEvent("a", "dispatched", 2), taskEvent("a", "running", 2), failed], false)
  expect(state.byName.get("a")!.instances.get("")).toMatchObject({ status: "pending", startedAt: null, availableAt: 9000 })
})

test("a task that was loaded in its back-off stays there when older events of its attempt arrive", () => {
  const state = loaded({ a: {} })
  const attempt = [
    taskEvent("a", "dispatched", 1),
    taskEvent("a", "running", 2),
    taskEvent("a", "pending", 4, { available_at: at(9), error: "exit 1" }),
  ]
  applyEvents(state, attempt, false)
  applyEvents(state, attempt.slice(0, 2), false)
  const instance = state.byName.get("a")!.instances.get("")!
  expect(instance).toMatchObject({ status: "pending", startedAt: null, availableAt: 9000 })
  applyEvents(state, attempt, false)
  expect(instance.past).toHaveLength(1)
  expect(runCounts(state)).toMatchObject({ pending: 1, running: 0 })
})

test("a fan-out gets its instances when they are created and finishes by its own event", () => {
  const state = loaded({ each: { fan: true } }, [])
  const each = state.byName.get("each")!
  expect(statusOf(state, each)).toBe("pending")
  applyEvents(state, [taskEvent("each", "running", 1, { total: 3, attempt: 0 })], false)
  expect(each.counts.pending).toBe(3)
  applyEvents(
    state,
    [
      taskEvent("each", "running", 2, { path: "1" }),
      taskEvent("each", "failed", 3, { path: "1" }),
      taskEvent("each", "success", 3, { path: "0" }),
      taskEvent("each", "success", 4, { path: "2" }),
      taskEvent("each", "failed", 5, { attempt: 0 }),
    ],
    false,
  )
  expect(each.counts).toMatchObject({ success: 2, failed: 1, pending: 0 })
  expect(statusOf(state, each)).toBe("failed")
})

test("the tasks of each item exist when its group is opened", () => {
  const state = loaded(
    {
      region: { executor: "group", fan: true },
      "region.load": { group: "region" },
      "region.each": { group: "region", after: ["region.load"], fan: true },
    },
    [],
  )
  applyEvents(
    state,
    [
      taskEvent("region", "running", 1, { total: 2 }),
      taskEvent("region", "running", 2, { path: "0" }),
      taskEvent("region", "running", 2, { path: "1" }),
      taskEvent("region.load", "success", 3, { path: "1" }),
      taskEvent("region.each", "running", 4, { path: "1", total: 2, attempt: 0 }),
      taskEvent("region.each", "running", 5, { path: "1.0" }),
    ],
    false,
  )
  const load = state.byName.get("region.load")!
  expect([...load.instances.keys()]).toEqual(["0", "1"])
  expect(statusOf(state, load)).toBe("running")
  expect([...state.byName.get("region.each")!.instances.keys()]).toEqual(["1.0", "1.1"])
  expect(statusOf(state, state.byName.get("region")!)).toBe("running")
})

test("a retried run must be reloaded; events of other runs are ignored", () => {
  const state = loaded({ a: {} })
  expect(applyEvents(state, [runEvent("running", 1)], true).restarted).toBe(true)
  expect(applyEvents(state, [runEvent("success", 1)], false)).toMatchObject({ changed: true, restarted: false, ended: true })
  expect(applyEvents(state, [{ ...taskEvent("a", "running", 1), run_id: "other" }], false).changed).toBe(false)
})

test("the tasks of a group that was skipped, or that ended before they had instances, are skipped", () => {
  const tasks = {
    region: { executor: "group", fan: true, status: "failed" },
    "region.load": { group: "region", fan: true, status: "failed" },
    "region.sum": { group: "region", executor: "group", status: "skipped" },
    "region.sum.add": { group: "region.sum" },
    later: { executor: "group" },
    "later.one": { group: "later" },
  } as const
  const state = stateOf(tasks)
  applyEvents(state, [taskEvent("region.load", "failed", 3, { path: "0.0" })], false)
  const statuses = Object.keys(tasks).map((name) => statusOf(state, state.byName.get(name)!))
  expect(statuses).toEqual(["failed", "failed", "skipped", "skipped", "pending", "pending"])
})
