import { expect, test } from "vitest"
import type { RunGraph, TaskStatus } from "../../api/types.ts"
import { addInstances, completeState, newState, noCounts, type RunState } from "../../run/state.ts"
import { chooseLog, sortedPaths } from "./log-choice.ts"

const at = (second: number): string => new Date(1_000_000 + 1000 * second).toISOString()

const stateOf = (
  instances: readonly [name: string, path: string, status: TaskStatus, attempt: number, started: number][],
): RunState => {
  const names = [...new Set(instances.map(([name]) => name))]
  const state = newState({
    run_id: "r",
    workflow: "w",
    version: 1,
    tasks: names.map((name) => ({ name, depends_on: [], group: null, hook: null, status: "pending", counts: noCounts() })),
  } as unknown as RunGraph)
  addInstances(
    state,
    instances.map(([name, path, status, attempt, started]) => ({
      name,
      path,
      status,
      attempt,
      label: null,
      available_at: null,
      waiting: null,
      dispatched_at: at(started),
      started_at: at(started),
      finished_at: null,
      past: [],
    })),
  )
  completeState(state)
  return state
}

const shown = (state: RunState, asked: Parameters<typeof chooseLog>[1] = {}) => {
  const choice = chooseLog(state, asked)
  return choice === null ? null : [choice.node.name, choice.instance?.path ?? null, choice.attempt, choice.live]
}

test("by default the log is that of the failed task, then of the running one, then of the last finished one", () => {
  expect(shown(stateOf([["a", "", "success", 1, 1], ["b", "", "failed", 2, 2], ["c", "", "running", 1, 3]]))).toEqual(["b", "", 2, false]) // prettier-ignore
  expect(shown(stateOf([["a", "", "success", 1, 1], ["c", "", "running", 1, 3]]))).toEqual(["c", "", 1, true]) // prettier-ignore
  expect(shown(stateOf([["a", "", "success", 1, 1], ["b", "", "success", 1, 2]]))).toEqual(["b", "", 1, false]) // prettier-ignore
  expect(shown(stateOf([]))).toBeNull()
})

test("the address decides; an unknown selection counts as none", () => {
  const state = stateOf([["a", "0", "success", 1, 1], ["a", "1", "running", 3, 2], ["b", "", "failed", 1, 3]]) // prettier-ignore
  expect(shown(state, { task: "a", path: "0" })).toEqual(["a", "0", 1, false])
  expect(shown(state, { task: "a" })).toEqual(["a", "1", 3, true])
  expect(shown(state, { task: "a", path: "1", attempt: "2" })).toEqual(["a", "1", 2, false])
  expect(shown(state, { task: "a", path: "9", attempt: "x" })).toEqual(["a", "1", 3, true])
  expect(shown(state, { task: "gone" })).toEqual(["b", "", 1, false])
})

test("instances are in numeric order", () => {
  const state = stateOf(["10", "2", "1"].map((path) => ["a", path, "success", 1, 1] as const))
  expect(sortedPaths(state.byName.get("a")!)).toEqual(["1", "2", "10"])
})
