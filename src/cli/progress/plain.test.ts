import { expect, test } from "vitest"
import { plainLine } from "./plain.ts"
import { event, T0 } from "../../../test/support/view-sketch.ts"
import { timeOfDay } from "../terminal/text.ts"

const line = (...given: Parameters<typeof event>): string | null => plainLine(event(...given))
const at = (seconds: number): string => timeOfDay(T0 + seconds * 1000)

test("a change of state is a line with time, task and state", () => {
  expect(line(1, "extract running")).toBe(`${at(1)} extract running`)
  expect(line(2, "run failed", { error: "task extract failed" })).toBe(`${at(2)} run failed: task extract failed`)
})

test("instances carry their path, later attempts their number, errors their reason in one line", () => {
  expect(line(1, "load/3 failed", { attempt: 2, error: "exit\ncode 1" })).toBe(
    `${at(1)} load[3] failed (attempt 2): exit code 1`,
  )
  expect(line(1, "load running", { total: 8 })).toBe(`${at(1)} load running (8 instances)`)
})

test("a wait for a retry says how long", () => {
  const availableAt = new Date(T0 + 11_000).toISOString()
  expect(line(1, "load pending", { availableAt, error: "exit code 1" })).toBe(
    `${at(1)} load waiting, retry in 10s: exit code 1`,
  )
})

test("being queued is not worth a line", () => {
  expect(line(1, "load dispatched")).toBeNull()
  expect(line(1, "load pending")).toBeNull()
})

test("a task that waits says for what; how far one is, is no line", () => {
  const waiting = { kind: "workflow", workflow: "etl", run_id: "r1", until: null } as const
  expect(line(1, "sub running", { waiting })).toBe(`${at(1)} sub waits for workflow etl (run r1)`)
  expect(line(1, "load running", { progress: { fraction: 0.5, details: null } })).toBeNull()
})
