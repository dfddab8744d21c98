import { expect, test } from "vitest"
import { chartData, latest, type Series } from "./chart-data.ts"

const series = (minutes: number): Series => ({
  from: "2026-11-15T06:00:00.000Z",
  success: Array.from({ length: minutes }, (_, i) => i),
  failed: Array.from({ length: minutes }, () => 0),
  dispatch_p50_ms: Array.from({ length: minutes }, () => null),
  dispatch_p95_ms: Array.from({ length: minutes }, (_, i) => (i % 2 === 0 ? 10 : null)),
  ready: Array.from({ length: minutes }, (_, i) => i),
  running: Array.from({ length: minutes }, () => 1),
})

test("a newly started server fills the end of the range", () => {
  const data = series(3)
  const { times, columns } = chartData(data, "1h", [{ values: data.success, fold: "sum" }])
  expect([times.length, times.at(-1)]).toEqual([60, Date.parse("2026-11-15T06:02:00Z") / 1000])
  expect(columns[0]!.slice(-4)).toEqual([null, 0, 1, 2])
})

test("a day is shown with fewer points: sums per minute, means and last values", () => {
  const data = series(1440)
  const { times, columns } = chartData(data, "24h", [
    { values: data.success, fold: "sum" },
    { values: data.dispatch_p95_ms, fold: "mean" },
    { values: data.ready, fold: "last" },
    { values: data.dispatch_p50_ms, fold: "mean" },
  ])
  expect(times).toHaveLength(240)
  expect(columns.map((column) => column[0])).toEqual([2.5, 10, 5, null])
})

test("a shorter range is the newest part", () => {
  const data = series(100)
  const { columns } = chartData(data, "1h", [{ values: data.success, fold: "sum" }])
  expect([columns[0]![0], columns[0]!.at(-1)]).toEqual([40, 99])
})

test("the latest value skips unknown ones", () => {
  expect([latest([1, 2, null]), latest([null])]).toEqual([2, null])
})
