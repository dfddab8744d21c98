import { expect, test } from "vitest"
import type { RunStatus } from "../../api/types.ts"
import { successRate, TICKS, ticksOf, ticksSummary } from "./ticks.ts"

const NOW = Date.parse("2026-11-15T06:00:00Z")
const at = (ms: number): string => new Date(NOW - ms).toISOString()

const run = (id: string, status: RunStatus, lastedMs: number | null) => ({
  id,
  status,
  created_at: at(120_000),
  started_at: lastedMs === null ? null : at(60_000),
  number: 1,
  idle_ms: 0,
  finished_at: lastedMs === null || status === "running" ? null : at(60_000 - lastedMs),
})

test("the newest run is at the right, the longest has the full height, and a run that did not start is visible", () => {
  const ticks = ticksOf([run("new", "success", 40_000), run("mid", "failed", 10_000), run("old", "pending", null)], NOW)
  expect(ticks.map((tick) => tick.id)).toEqual(["old", "mid", "new"])
  expect(ticks.map((tick) => Number(tick.height.toFixed(2)))).toEqual([0.18, 0.59, 1])
})

test("each tick has a text description", () => {
  const [tick] = ticksOf([run("a", "failed", 10_000)], NOW)
  expect([tick!.label, tick!.tone]).toEqual(["failed, 10 s, 2 min ago", "failed"])
})

test("a running run has its current duration", () => {
  expect(ticksOf([run("a", "running", 0)], NOW)[0]!.label).toBe("running, 1 min, 2 min ago")
})

test("at most twenty runs are shown", () => {
  expect(
    ticksOf(
      Array.from({ length: 30 }, (_, i) => run(String(i), "success", 1)),
      NOW,
    ),
  ).toHaveLength(TICKS)
})

test("the success rate ignores cancelled runs", () => {
  const runs = (["success", "success", "failed", "cancelled", "running"] as const).map((status) => ({ status }))
  expect(successRate(runs)).toEqual({ success: 2, ended: 3 })
  expect(ticksSummary(runs)).toBe("Last 5 runs: 2 success, 1 failed, 1 cancelled, 1 running")
  expect(ticksSummary([])).toBe("No runs yet")
})
