// Cron expressions by croner: five fields, six with seconds, or names such as @daily; and intervals (`@every 5m`). No other file
// imports croner, which searches local times; this file places them in time zones.

import { Cron } from "croner"
import { messageOf } from "../values/error-message.ts"
import { intervalProblem, isInterval, nextMultiples, previousMultiples } from "./interval.ts"
import { type Period, periodAt } from "./zone.ts"
import { BoundedMap } from "../values/bounded-map.ts"

const MAX_CACHED = 1000
const parsedCache = new BoundedMap<string, Cron>(MAX_CACHED)
const ticksCache = new BoundedMap<string, readonly Date[]>(MAX_CACHED)

/** Parses an expression. Cached: a server with thousands of schedules evaluates the same expressions repeatedly. */
const parseCron = (expression: string): Cron =>
  parsedCache.getOrCreate(expression, () => new Cron(expression, { paused: true, timezone: "UTC", mode: "5-or-6-parts" }))

export const cronProblem = (expression: string): string | null => {
  if (isInterval(expression)) return intervalProblem(expression)
  if (!expression.startsWith("@") && !/^\S+(\s+\S+){4,5}$/.test(expression.trim())) {
    return "it needs five fields (minute hour day month weekday), six with seconds first, or one of @hourly, @daily, @weekly, @monthly, @yearly, @every 5m"
  }
  try {
    const first = parseCron(expression).nextRun(new Date("2000-01-01T00:00:00Z"))
    return first === null ? "it has no date in the calendar" : null
  } catch (error) {
    return messageOf(error).replace(/^Cron(Pattern|Date)?: /, "")
  }
}

/** Returns the next `count` ticks after an instant. Cached: schedules that share an expression are due together. */
export const nextTicks = (expression: string, timezone: string, after: Date, count: number): readonly Date[] => {
  if (isInterval(expression)) return nextMultiples(expression, after.getTime(), count)
  const key = `${timezone} ${expression} ${after.getTime()} ${count}`
  return ticksCache.getOrCreate(key, () => findTicks(expression, timezone, after.getTime(), count))
}

const findTicks = (expression: string, timezone: string, after: number, count: number): Date[] => {
  const ticks: Date[] = []
  let period = periodAt(timezone, after)
  let local = Math.max(after + period.offset, firstLocal(expression, period) - 1)
  while (ticks.length < count) {
    const next = nextLocal(expression, local)
    if (next === null) break
    if (next < period.to + period.offset) {
      local = next
      const tick = Math.max(period.from, next - period.offset)
      if (tick > after && tick !== ticks.at(-1)?.getTime()) ticks.push(new Date(tick))
    } else {
      const following = periodAt(timezone, period.to)
      // A clock that goes back shows times again, before the next one of this period.
      period = following.offset < period.offset ? following : periodAt(timezone, Math.max(period.to, next - MAX_OFFSET_MS))
      local = firstLocal(expression, period) - 1
    }
  }
  return ticks
}

/** Returns the last `count` ticks up to and including an instant, oldest first. */
export const previousTicks = (expression: string, timezone: string, until: Date, count: number): Date[] => {
  if (isInterval(expression)) return previousMultiples(expression, until.getTime(), count)
  const ticks: Date[] = []
  let period = periodAt(timezone, until.getTime())
  let local = until.getTime() + period.offset + 1
  while (ticks.length < count) {
    const previous = previousLocal(expression, local)
    if (previous === null) break
    if (previous >= firstLocal(expression, period)) {
      local = previous
      const tick = Math.max(period.from, previous - period.offset)
      if (tick !== ticks.at(-1)?.getTime()) ticks.push(new Date(tick))
    } else {
      const goesBack = period.offset < period.previous
      period = periodAt(timezone, goesBack ? period.from - 1 : Math.min(period.from - 1, previous + MAX_OFFSET_MS))
      local = period.to + period.offset
    }
  }
  return ticks.toReversed()
}

/** More than the offset of any time zone. */
const MAX_OFFSET_MS = 86_400_000

/**
 * Returns the first local time that ticks in a period. Fixed times begin where the previous period ended: times that the clock skipped
 * tick at the start of the period, and times that it repeats have ticked already. Other times tick whenever the clock shows them.
 */
const firstLocal = (expression: string, { from, offset, previous }: Period): number =>
  from + (hasFixedTimes(expression) ? previous : offset)

/** Returns true when seconds, minutes and hours are numbers, lists or ranges, without `*` and steps. */
const hasFixedTimes = (expression: string): boolean => {
  const fields = expression.trim().split(/\s+/)
  return fields.length === 1 ? fields[0] !== "@hourly" : !/[*?/]/.test(fields.slice(0, -3).join())
}

/** Returns the next local time after another one. */
const nextLocal = (expression: string, after: number): number | null => {
  const cron = parseCron(expression)
  const tick = cron.nextRun(new Date(after))
  if (tick === null || !restrictsDays(expression)) return tick?.getTime() ?? null
  const march = parseCron(MARCH).nextRun(new Date(after))
  if (march === null || march >= tick) return tick.getTime()
  return (cron.match(march) ? march : cron.nextRun(march))?.getTime() ?? null
}

const previousLocal = (expression: string, before: number): number | null =>
  parseCron(expression)
    .previousRuns(1, new Date(Math.ceil(before / 1000) * 1000))[0]
    ?.getTime() ?? null

/** Returns true when the field of the day of the month is not `*`. */
const restrictsDays = (expression: string): boolean => {
  const fields = expression.trim().split(/\s+/)
  return fields.length >= 5 && !["*", "?"].includes(fields.at(-3)!)
}

/**
 * Works around croner 11, which searches days 30 and 31 in February and continues in March from there, so that it misses ticks on March 1
 * and 2 (`0 0 1,15,30 * *`): a step over the end of February is repeated from March 1.
 */
const MARCH = "0 0 0 1 3 *"

export const isTimezone = (name: string): boolean => {
  if (name === "UTC") return true
  try {
    new Intl.DateTimeFormat("en", { timeZone: name })
    return /^[A-Za-z]/.test(name)
  } catch {
    return false
  }
}

/** Returns true for a day `2026-01-31` or an instant `2026-01-31T10:00:00Z` that the calendar has. */
export const isDateText = (text: string): boolean => {
  const match = /^(\d{4})-(\d{2})-(\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2}))?$/.exec(text)
  if (match === null) return false
  const [, year, month, day, time] = match
  const midnight = new Date(`${year}-${month}-${day}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || midnight.getUTCDate() !== Number(day)) return false
  return time === undefined || !Number.isNaN(Date.parse(text))
}
