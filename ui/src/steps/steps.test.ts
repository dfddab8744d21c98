import { expect, test } from "vitest"
import type { Step } from "../api/types.ts"
import { linesOf } from "./model.ts"

const AT = Date.UTC(2026, 0, 1)
const at = (seconds: number): string => new Date(AT + seconds * 1000).toISOString()

const step = (name: string, more: Partial<Step> = {}): Step => ({
  name,
  occurrence: 0,
  position: 0,
  kind: "run",
  state: "success",
  failures: 0,
  output: null,
  output_object: null,
  error: null,
  until: null,
  child: null,
  child_kind: null,
  message: null,
  default: null,
  started_at: at(0),
  finished_at: at(1),
  ...more,
})

const WAITING = { state: "waiting", finished_at: null } as const
const running = { startedAt: AT, finishedAt: null, now: AT + 10_000 }

test("a step has a name, attempts, a duration and a place in the time of its function", () => {
  const [line] = linesOf([step("reserve", { failures: 2, occurrence: 1, started_at: at(5), finished_at: at(7.5) })], running)
  expect(line).toMatchObject({
    title: "reserve (number 2)",
    what: "code",
    status: "success",
    attempts: "3 attempts",
    duration: "2.5 s",
    waitsFor: null,
    place: 0.5,
    length: 0.25,
  })
})

test("a waiting step says what it waits for, and lasts until now", () => {
  const lines = linesOf(
    [
      step("pause", { ...WAITING, kind: "sleep", until: at(3600) }),
      step("paid", { ...WAITING, kind: "wait" }),
      step("ship", { ...WAITING, kind: "call", child: "1", child_kind: "job" }),
      step("charge", { ...WAITING, failures: 1, until: at(20) }),
      step("refund", { ...WAITING, kind: "approval", message: "Refund 5 EUR?" }),
    ],
    running,
  )
  expect(lines.map(({ waitsFor }) => waitsFor)).toEqual([
    expect.stringMatching(/^sleeps until .*2026/),
    "waits for the signal paid",
    "waits for the end of the job that it has started",
    expect.stringMatching(/^waits for attempt 2 at /),
    "waits for approval",
  ])
  expect(lines.map(({ attempts }) => attempts)).toEqual([null, null, null, "1 attempt", null])
  expect(lines[0]).toMatchObject({ status: "waiting", place: 0, length: 1 })
})

test("a step that waited when its function ended has ended with it", () => {
  const [line] = linesOf([step("paid", { ...WAITING, kind: "wait" })], { ...running, finishedAt: AT + 4000 })
  expect(line).toMatchObject({ status: "cancelled", waitsFor: null, duration: "4.0 s", length: 1 })
})
