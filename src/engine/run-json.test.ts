import { expect, test } from "vitest"
import type { AttemptId, RunId } from "../core/model/ids.ts"
import { attemptShapes, eventShape, instanceIndex, taskShape } from "./run-json.ts"
import type { AttemptRow, TaskRow } from "../store/contract/store.ts"

const RUN = "01900000-0000-7000-8000-000000000000" as RunId

const task = (given: Partial<TaskRow>): TaskRow => ({
  row: 7,
  runId: RUN,
  node: 0,
  name: "load",
  path: "",
  label: null,
  kind: "task",
  status: "pending",
  skipReason: null,
  attempt: 0,
  failures: 0,
  losses: 0,
  item: null,
  parked: null,
  upstreamPending: 0,
  attemptId: null,
  priority: 5,
  output: null,
  lastAttemptState: null,
  worker: null,
  externalId: null,
  exitCode: null,
  error: null,
  usage: null,
  availableAt: null,
  waitingOn: null,
  resumeAt: null,
  progress: null,
  dispatchedAt: null,
  startedAt: null,
  finishedAt: null,
  ...given,
})

const failed: AttemptRow = {
  attempt: 1,
  attemptId: "a1" as AttemptId,
  state: "failed",
  worker: null,
  externalId: "123",
  exitCode: 1,
  error: "exit code 1",
  usage: { maxRssBytes: 5 },
  dispatchedAt: null,
  startedAt: null,
  finishedAt: null,
}

const node = (maxAttempts: number) => ({
  queue: "default",
  retry: { maxAttempts, backoff: "fixed" as const, baseDelayMs: 0, maxDelayMs: 0, jitter: false },
})

test.each([
  ["", null],
  ["0", 0],
  ["12", 12],
  ["1.2", 2],
])("the index of path %j is %j", (path, index) => {
  expect(instanceIndex(path)).toBe(index)
})

test("retries_left counts failures, not lost attempts", () => {
  const left = (given: Partial<TaskRow>): number => taskShape(task(given), node(3), { input: null, attempts: [] }).retries_left
  expect(left({})).toBe(2)
  expect(left({ status: "running", attempt: 1 })).toBe(2)
  expect(left({ status: "pending", attempt: 1, failures: 1 })).toBe(2)
  expect(left({ status: "running", attempt: 2, failures: 1 })).toBe(1)
  expect(left({ status: "running", attempt: 5, failures: 0 })).toBe(2)
  expect(left({ status: "running", attempt: 3, failures: 2 })).toBe(0)
})

test("a small output is inline, a large one is a key", () => {
  const shape = (output: TaskRow["output"]) => taskShape(task({ output }), node(1), { input: null, attempts: [] })
  expect(shape({ inline: { rows: 1 } })).toMatchObject({ output: { rows: 1 }, output_object: null })
  expect(shape({ key: "k", bytes: 9 })).toMatchObject({ output: null, output_object: { key: "k", bytes: 9 } })
})

test("the latest attempt follows the past ones, running or finished", () => {
  const states = (given: Partial<TaskRow>, past: AttemptRow[]): string[] =>
    attemptShapes(task(given), past).map((each) => `${each.attempt} ${each.status}`)
  expect(states({}, [])).toEqual([])
  expect(states({ status: "running", attempt: 2, attemptId: "a2" as AttemptId }, [failed])).toEqual(["1 failed", "2 running"])
  expect(states({ status: "failed", attempt: 2, attemptId: "a2" as AttemptId, lastAttemptState: "timeout" }, [failed])).toEqual(
    ["1 failed", "2 timeout"],
  )
  expect(states({ status: "pending", attempt: 1, lastAttemptState: "failed" }, [failed])).toEqual(["1 failed"])
})

test("an event has every field, and the error only if there is one", () => {
  const at = "2026-01-01T00:00:00.000Z"
  expect(eventShape({ type: "run", runId: RUN, status: "running", at })).toEqual({
    event: "run",
    run_id: RUN,
    task: null,
    index: null,
    path: null,
    attempt: null,
    status: "running",
    at,
  })
  const event = { type: "task", runId: RUN, task: "a", path: "3", attempt: 2, status: "failed", at, error: "no" } as const
  expect(eventShape(event)).toMatchObject({ event: "task", task: "a", index: 3, path: "3", attempt: 2, error: "no" })
})
