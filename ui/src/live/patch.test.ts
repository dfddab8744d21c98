import { expect, test } from "vitest"
import type { Job, OrkEvent, Run } from "../api/types.ts"
import { latestByRun, patchJob, patchPages, patchRun } from "./patch.ts"

const AT = "2026-11-15T06:00:00.000Z"
const RUN = { id: "r1", status: "pending", started_at: null, finished_at: null, idle_ms: 0, error: null } as Run
const JOB = { id: "j1", status: "READY", attempt_count: 0, error: null, started_at: null, finished_at: null } as Job

const event = (change: Partial<OrkEvent>): OrkEvent => ({
  event: "run",
  run_id: "r1",
  task: null,
  index: null,
  path: null,
  attempt: null,
  status: "running",
  at: AT,
  ...change,
})

test("a run that starts and finishes gets its times", () => {
  const running = patchRun(RUN, event({}))
  expect(running).toMatchObject({ status: "running", started_at: AT, finished_at: null })
  const failed = patchRun(running, event({ status: "failed", at: "2026-11-15T06:00:01.000Z", error: "task a failed" }))
  expect(failed).toMatchObject({
    status: "failed",
    started_at: AT,
    finished_at: "2026-11-15T06:00:01.000Z",
    error: "task a failed",
  })
})

test("a retried run has neither a finish time nor an error", () => {
  const failed = { ...RUN, status: "failed", started_at: AT, finished_at: AT, error: "x" } as Run
  expect(patchRun(failed, event({}))).toMatchObject({ status: "running", started_at: AT, finished_at: null, error: null })
})

test("the time between the end of a run and its retry does not count", () => {
  const failed = { ...RUN, status: "failed", started_at: AT, finished_at: AT } as Run
  const later = new Date(Date.parse(AT) + 5000).toISOString()
  expect(patchRun(failed, event({ at: later })).idle_ms).toBe(5000)
})

test("unchanged data is the same object, so that it does not render again", () => {
  expect(patchRun(RUN, undefined)).toBe(RUN)
  expect(patchRun(RUN, event({ status: "pending" }))).toBe(RUN)
  const list = { pages: [{ items: [RUN], next_cursor: null, has_more: false }], pageParams: [null] }
  expect(patchPages(list, (run) => run)).toBe(list)
  const other = { ...list, pages: [...list.pages, { items: [{ ...RUN, id: "r2" }], next_cursor: null, has_more: false }] }
  const patched = patchPages(other, (run) => (run.id === "r2" ? { ...run, status: "running" as const } : run))!
  expect(patched.pages[0]).toBe(other.pages[0])
  expect(patched.pages[1]!.items[0]!.status).toBe("running")
})

test("the last of several events of a run counts, and task events are ignored", () => {
  const events = [event({}), event({ status: "success" }), event({ event: "task", task: "a", status: "failed" })]
  expect([...latestByRun(events)].map(([id, each]) => [id, each.status])).toEqual([["r1", "success"]])
})

test("a job follows its events", () => {
  const running = patchJob(JOB, event({ event: "job", run_id: null, job_id: "j1", status: "RUNNING", attempt: 1 }))
  expect(running).toMatchObject({ status: "RUNNING", attempt_count: 1, started_at: AT, finished_at: null })
  const again = patchJob(running, event({ event: "job", job_id: "j1", status: "READY", error: "exit 1" }))
  expect(again).toMatchObject({ status: "READY", error: "exit 1", finished_at: null })
})
