// Time zones: what the local clock shows at an instant, and when it changes. A local time is written as the milliseconds that it would
// have in UTC, so that local time = instant + offset.

import { BoundedMap } from "../values/bounded-map.ts"

const MAX_CACHED = 1000
const WEEK_MS = 7 * 86_400_000

const formats = new BoundedMap<string, Intl.DateTimeFormat>(MAX_CACHED)
const periodCache = new BoundedMap<string, readonly Period[]>(MAX_CACHED)

/** Instants `from` (inclusive) to `to` (exclusive) with one offset. `previous`: the offset just before `from`. */
export interface Period {
  from: number
  to: number
  offset: number
  previous: number
}

const offsetAt = (timezone: string, instant: number): number => {
  if (timezone === "UTC") return 0
  const format = formats.getOrCreate(
    timezone,
    () =>
      new Intl.DateTimeFormat("en-US", {
        timeZone: timezone,
        calendar: "iso8601",
        numberingSystem: "latn",
        hourCycle: "h23",
        year: "numeric",
        month: "2-digit",
        day: "2-digit",
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
      }),
  )
  const seconds = Math.floor(instant / 1000)
  const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
  for (const { type, value } of format.formatToParts(seconds * 1000)) fields[type] = Number(value)
  const { year, month, day, hour, minute, second } = fields
  return Date.UTC(year!, month! - 1, day, hour, minute, second) - seconds * 1000
}

/** Returns the period that an instant lies in. Periods also end with each week: no zone changes its clock twice in a week. */
export const periodAt = (timezone: string, instant: number): Period => {
  const week = Math.floor(instant / WEEK_MS)
  const periods = periodCache.getOrCreate(`${timezone} ${week}`, () => periodsOfWeek(timezone, week))
  return periods.find(({ to }) => instant < to)!
}

const periodsOfWeek = (timezone: string, week: number): Period[] => {
  const [from, to] = [week * WEEK_MS, (week + 1) * WEEK_MS]
  const previous = offsetAt(timezone, from - 1)
  const offset = offsetAt(timezone, from)
  const next = offsetAt(timezone, to - 1)
  if (offset === next) return [{ from, to, offset, previous }]
  let [before, change] = [from, to - 1]
  while (change - before > 1) {
    const middle = Math.floor((before + change) / 2)
    if (offsetAt(timezone, middle) === offset) before = middle
    else change = middle
  }
  return [
    { from, to: change, offset, previous },
    { from: change, to, offset: next, previous: offset },
  ]
}

/** Returns the instant of a local time: the first one of a time that occurs twice, the next one that exists of a skipped time. */
export const instantOf = (timezone: string, local: number): number => {
  let period = periodAt(timezone, local - DAY_MS)
  while (local >= period.to + period.offset) period = periodAt(timezone, period.to)
  return Math.max(period.from, local - period.offset)
}

const DAY_MS = 86_400_000
