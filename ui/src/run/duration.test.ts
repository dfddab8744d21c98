import { expect, test } from "vitest"
import { runDuration } from "./duration.ts"
import { at } from "./testing.ts"

test("a run lasts from its start to its end, or until now", () => {
  const run = { started_at: at(10), finished_at: null, idle_ms: 0 }
  expect(runDuration(run, 15_000)).toBe(5000)
  expect(runDuration({ ...run, finished_at: at(12) }, 15_000)).toBe(2000)
  expect(runDuration({ ...run, started_at: null }, 15_000)).toBeNull()
})

test("the hours between the end of a run and its retry do not count", () => {
  const run = { started_at: at(0), finished_at: at(7210), idle_ms: 7_200_000 }
  expect(runDuration(run, 0)).toBe(10_000)
  expect(runDuration({ ...run, finished_at: null }, 7_205_000)).toBe(5000)
})
