import { expect, test } from "vitest"
import { eventLine } from "./event-text.ts"
import { event, T0 } from "../../../test/support/view-sketch.ts"
import { timeOfDay } from "../terminal/text.ts"

const line = (...given: Parameters<typeof event>): string | null => eventLine(event(...given))
const at = (seconds: number): string => timeOfDay(T0 + seconds * 1000)

test("a change of status is a line with time, task and status", () => {
  expect(line(1, "extract running")).toBe(`${at(1)} extract running`)
  expect(line(2, "run failed", { error: "task extract failed" })).toBe(`${at(2)} run failed: task extract failed`)
})

test("a line contains the path of an instance, the number of a later attempt, and the error", () => {
  expect(line(1, "load/3 failed", { attempt: 2, error: "exit\ncode 1" })).toBe(
    `${at(1)} load[3] failed (attempt 2): exit code 1`,
  )
  expect(line(1, "load running", { total: 8 })).toBe(`${at(1)} load running (8 instances)`)
})

test("a line about a retry contains the delay", () => {
  const availableAt = new Date(T0 + 11_000).toISOString()
  expect(line(1, "load pending", { availableAt, error: "exit code 1" })).toBe(
    `${at(1)} load waiting, retry in 10s: exit code 1`,
  )
})

test("a queued task has no line", () => {
  expect(line(1, "load dispatched")).toBeNull()
  expect(line(1, "load pending")).toBeNull()
})

test("a waiting task has a line with the reason; a progress report has no line", () => {
  const waiting = { kind: "workflow", workflow: "etl", run_id: "r1", until: null } as const
  expect(line(1, "sub running", { waiting })).toBe(`${at(1)} sub waits for workflow etl (run r1)`)
  expect(line(1, "load running", { progress: { fraction: 0.5, details: null } })).toBeNull()
})
