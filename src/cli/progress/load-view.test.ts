import { expect, test } from "vitest"
import { endedCount, stateOf } from "./terminal-state.ts"
import { resetForRetry, loadView } from "./load-view.ts"
import { RUN, T0, workflowOf } from "../../../test/support/view-sketch.ts"
import type { RowState, RowReset } from "../../core/rules/runs/retry-plan.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"

const iso = (seconds: number): string => new Date(T0 + seconds * 1000).toISOString()

const row = (number: number, name: string, path: string, given: Partial<TaskRow>): TaskRow => ({
  row: number,
  runId: RUN,
  node: 0,
  name,
  path,
  label: null,
  kind: "task",
  status: "pending",
  skipReason: null,
  attempt: 1,
  failures: 0,
  losses: 0,
  attemptId: null,
  priority: 5,
  item: null,
  output: null,
  error: null,
  exitCode: null,
  worker: null,
  externalId: null,
  usage: null,
  lastAttemptState: null,
  availableAt: null,
  dispatchedAt: null,
  startedAt: null,
  finishedAt: null,
  parked: null,
  upstreamPending: 0,
  waitingOn: null,
  resumeAt: null,
  progress: null,
  ...given,
})

const ended = (status: TaskRow["status"], from: number, to: number): Partial<TaskRow> => ({
  status,
  startedAt: iso(from),
  finishedAt: iso(to),
  error: status === "failed" ? "exit code 1" : null,
})

/** Returns a store with one failed run: a succeeded, instance 1 of the fan-out b failed, c was skipped. */
const setup = () => {
  const workflow = workflowOf({ a: {}, b: { after: ["a"], foreach: true }, c: { after: ["b"] } })
  const tasks = [
    row(1, "a", "", ended("success", 0, 1)),
    row(2, "b", "0", ended("success", 1, 2)),
    row(3, "b", "1", ended("failed", 1, 3)),
    row(4, "c", "", { status: "skipped", finishedAt: iso(3), attempt: 0 }),
  ]
  const nodes: RowState[] = [
    { node: 0, path: "", kind: "task", status: "success", skipReason: null, childrenCreated: 0, total: null },
    { node: 1, path: "", kind: "fan", status: "failed", skipReason: null, childrenCreated: 2, total: 2 },
    { node: 2, path: "", kind: "task", status: "skipped", skipReason: "unmet", childrenCreated: 0, total: null },
  ]
  const store = {
    listTasks: ({ after = 0, limit }: { after?: number; limit: number }) =>
      Promise.resolve(tasks.filter((task) => task.row > after).slice(0, limit)),
    listRowStates: () => Promise.resolve(nodes),
  } as unknown as Store
  const run = { id: RUN, status: "failed", error: null, startedAt: iso(0), finishedAt: iso(3) } as unknown as RunRow
  return { store, run, workflow, tasks }
}

test("the view of an ended run equals the view built from its events", async () => {
  const { store, run, workflow } = setup()
  const view = await loadView(store, run, workflow)
  expect(view.tasks.map((task) => [task.name, stateOf(task), endedCount(task), task.total])).toEqual([
    ["a", "success", 1, 1],
    ["b", "failed", 2, 2],
    ["c", "skipped", 1, 1],
  ])
  expect(view.tasks[1]!.failures).toEqual([{ path: "1", attempt: 1, error: "exit code 1" }])
  expect([view.startedAt, view.finishedAt]).toEqual([T0, T0 + 3000])
})

test("an attempt whose process died counts as not started", async () => {
  const { store, run, workflow, tasks } = setup()
  tasks[0] = row(1, "a", "", { status: "running", startedAt: iso(0) })
  const view = await loadView(store, run, workflow)
  expect([stateOf(view.tasks[0]!), view.tasks[0]!.live.size]).toEqual(["pending", 0])
})

test("a retry resets the tasks that it runs again and keeps successful instances of a fan-out", async () => {
  const { store, run, workflow } = setup()
  const view = await loadView(store, run, workflow)
  const common = { upstreamPending: 0, upstream: { failed: 0, unmet: 0, waived: 0 }, lane: "", instanceLane: "" }
  const nodes: RowReset[] = [
    { node: 1, path: "", extent: "failed", ...common },
    { node: 2, path: "", extent: "all", ...common },
  ]
  await resetForRetry(store, run, view, nodes)
  expect(view.tasks.map((task) => [task.name, stateOf(task), endedCount(task)])).toEqual([
    ["a", "success", 1],
    ["b", "running", 1],
    ["c", "pending", 0],
  ])
  expect([view.status, view.finishedAt, view.tasks[1]!.failures]).toEqual(["running", null, []])
})
