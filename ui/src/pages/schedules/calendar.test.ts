import { expect, test } from "vitest"
import { DAY, dayRows, hourLines, pace, TICKS_ASKED, ticksUntil, weekDays } from "./calendar.ts"

const HOUR = 3_600_000
const FROM = new Date(2026, 10, 15, 6, 0).getTime()

const schedule = (id: number, ticks: readonly number[], paused = false) => ({
  id,
  workflow: `flow-${id}`,
  cron: "x",
  timezone: "UTC",
  paused,
  next_ticks: ticks.map((tick) => new Date(tick).toISOString()),
})

const every = (ms: number, count = TICKS_ASKED) => Array.from({ length: count }, (_, i) => FROM + (i + 1) * ms)

test("a daily schedule is one mark at its time of day", () => {
  const [row] = dayRows([schedule(1, [FROM + 6 * HOUR, FROM + 30 * HOUR])], FROM)
  expect([row!.count, row!.marks, row!.band]).toEqual([1, [{ at: FROM + 6 * HOUR, left: 0.25 }], null])
})

test("a schedule that fires every minute is a band over the whole day, although fewer ticks are known", () => {
  const [row] = dayRows([schedule(1, every(60_000))], FROM)
  expect(row!.marks).toEqual([])
  expect(row!.count).toBe(DAY / 60_000 - 1)
  expect(row!.band).toMatchObject({ everyMs: 60_000 })
  expect(row!.band!.left + row!.band!.width).toBeCloseTo(1, 2)
})

test("rows are ordered by their next tick, paused ones come last, and schedules without a tick that day are omitted", () => {
  const rows = dayRows(
    [schedule(1, [FROM + 5 * HOUR]), schedule(2, [], true), schedule(3, [FROM + HOUR]), schedule(4, [FROM + 2 * DAY])],
    FROM,
  )
  expect(rows.map((row) => row.id)).toEqual([3, 1, 2])
})

test("no ticks are extrapolated when all are known", () => {
  expect(ticksUntil(schedule(1, every(60_000, 5)), FROM + DAY)).toEqual({ ticks: every(60_000, 5), guessed: false })
  expect(ticksUntil(schedule(1, every(HOUR)), FROM + 2 * HOUR + 1).ticks).toHaveLength(2)
})

test("the interval is the typical gap between ticks", () => {
  expect([pace([0, 10, 20, 500]), pace([0]), pace([])]).toEqual([10, null, null])
})

test("a day has 24 hour lines, every third with a label", () => {
  const lines = hourLines(FROM + 1)
  expect([lines.length, lines.filter((line) => line.named).length]).toEqual([24, 8])
  expect(lines.every((line) => line.left > 0 && line.left <= 1)).toBe(true)
})

test("the week shows each tick, and frequent ticks of a day as one entry with a count", () => {
  const days = weekDays([schedule(1, [FROM + HOUR, FROM + HOUR + DAY]), schedule(2, every(15 * 60_000))], FROM)
  expect(days).toHaveLength(7)
  expect(days[0]!.entries.map(({ id, count }) => [id, count])).toEqual([
    [2, 71],
    [1, 1],
  ])
  expect(days[1]!.entries.map(({ id, count, guessed }) => [id, count, guessed])).toEqual([
    [2, 96, false],
    [1, 1, false],
  ])
  expect(days[4]!.entries).toMatchObject([{ id: 2, count: 96, guessed: true }])
})

test("days begin at midnight in the user's time zone", () => {
  expect(weekDays([], FROM).map((day) => new Date(day.start).getHours())).toEqual([0, 0, 0, 0, 0, 0, 0])
})
