// The ticks of the next day and week as geometry: marks along a day, entries in the days of a week. The API returns a
// limited number of ticks; further ticks are extrapolated from their interval.

import type { Schedule } from "../../api/types.ts"

const HOUR = 3_600_000
export const DAY = 24 * HOUR
/** Number of ticks requested per schedule. */
export const TICKS_ASKED = 200
/** Marks closer than this become one band. */
const DENSE_MS = 20 * 60_000
/** A schedule with more ticks on a day has one entry for all of them. */
const MAX_ENTRIES = 3

type Fires = Pick<Schedule, "id" | "workflow" | "cron" | "timezone" | "next_ticks" | "paused">

/** Returns the typical interval between ticks; null for fewer than two ticks. */
export const pace = (ticks: readonly number[]): number | null => {
  const gaps = ticks.slice(1).map((tick, i) => tick - ticks[i]!)
  return gaps.length === 0 ? null : gaps.toSorted((a, b) => a - b)[Math.floor(gaps.length / 2)]!
}

/** Returns every tick before `until`: the known ones, then extrapolated ones. */
export const ticksUntil = (schedule: Pick<Fires, "next_ticks">, until: number): { ticks: number[]; guessed: boolean } => {
  const known = schedule.next_ticks.map((tick) => Date.parse(tick))
  const ticks = known.filter((tick) => tick < until)
  const step = pace(known)
  if (known.length < TICKS_ASKED || ticks.length < known.length || step === null || step <= 0) return { ticks, guessed: false }
  for (let tick = known.at(-1)! + step; tick < until; tick += step) ticks.push(tick)
  return { ticks, guessed: ticks.length > known.length }
}

export interface Mark {
  at: number
  /** Position as a fraction of the day, 0 to 1. */
  left: number
}

export interface DayRow {
  id: number
  workflow: string
  cron: string
  paused: boolean
  count: number
  marks: Mark[]
  /** Range of the band, if single marks would overlap. */
  band: { left: number; width: number; everyMs: number } | null
}

/** Returns a row for each schedule that fires in the day after `from`, earliest first, paused ones last. */
export const dayRows = (schedules: readonly Fires[], from: number): DayRow[] =>
  schedules
    .map((schedule): DayRow => {
      const { ticks } = ticksUntil(schedule, from + DAY)
      const here = ticks.filter((tick) => tick >= from)
      const step = pace(here)
      const dense = here.length > 4 && step !== null && step < DENSE_MS
      const place = (at: number): number => (at - from) / DAY
      return {
        id: schedule.id,
        workflow: schedule.workflow,
        cron: schedule.cron,
        paused: schedule.paused,
        count: here.length,
        marks: dense ? [] : here.map((at) => ({ at, left: place(at) })),
        band: dense ? { left: place(here[0]!), width: place(here.at(-1)!) - place(here[0]!), everyMs: step } : null,
      }
    })
    .filter((row) => row.count > 0 || row.paused)
    .toSorted((a, b) => firstOf(a) - firstOf(b) || a.workflow.localeCompare(b.workflow))

const firstOf = (row: DayRow): number => row.marks[0]?.left ?? row.band?.left ?? 2

/** Returns the full hours of the day after `from`; every third has a label. */
export const hourLines = (from: number): { at: number; left: number; named: boolean }[] => {
  const first = Math.ceil(from / HOUR) * HOUR
  return Array.from({ length: 24 }, (_, i) => first + i * HOUR).map((at) => ({
    at,
    left: (at - from) / DAY,
    named: new Date(at).getHours() % 3 === 0,
  }))
}

export interface WeekEntry {
  id: number
  workflow: string
  first: number
  count: number
  /** The count is extrapolated. */
  guessed: boolean
}

export interface WeekDay {
  start: number
  entries: WeekEntry[]
}

const startOfDay = (at: number, ahead: number): number => {
  const date = new Date(at)
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + ahead).getTime()
}

/** Returns seven days from today in the user's time zone; frequent ticks of a day are one entry with a count. */
export const weekDays = (schedules: readonly Fires[], from: number): WeekDay[] => {
  const starts = Array.from({ length: 8 }, (_, i) => startOfDay(from, i))
  const all = schedules.map((schedule) => ({ schedule, ...ticksUntil(schedule, starts[7]!) }))
  return starts.slice(0, 7).map((start, i) => ({
    start,
    entries: all
      .flatMap(({ schedule: { id, workflow, next_ticks: known }, ticks, guessed }) => {
        const here = ticks.filter((tick) => tick >= Math.max(start, from) && tick < starts[i + 1]!)
        const unsure = guessed && here.some((tick) => tick > Date.parse(known.at(-1)!))
        if (here.length === 0) return []
        if (here.length > MAX_ENTRIES) return [{ id, workflow, first: here[0]!, count: here.length, guessed: unsure }]
        return here.map((first) => ({ id, workflow, first, count: 1, guessed: unsure }))
      })
      .toSorted((a, b) => a.first - b.first || a.workflow.localeCompare(b.workflow)),
  }))
}
