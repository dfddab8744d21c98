// Cron expressions by croner: five fields, six with seconds, or names such as @daily. No other file imports croner.

import { Cron } from "croner"
import { messageOf } from "../model/error-message.ts"

const MAX_CACHED = 1000
const parsedCache = new Map<string, Cron>()
const ticksCache = new Map<string, readonly Date[]>()

const remember = <T>(cache: Map<string, T>, key: string, value: T): T => {
  cache.set(key, value)
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!)
  return value
}

/** Parses an expression. Cached: a server with thousands of schedules evaluates the same expressions repeatedly. */
const parseCron = (expression: string, timezone: string): Cron => {
  const key = `${timezone} ${expression}`
  return (
    parsedCache.get(key) ?? remember(parsedCache, key, new Cron(expression, { paused: true, timezone, mode: "5-or-6-parts" }))
  )
}

export const cronProblem = (expression: string): string | null => {
  if (!expression.startsWith("@") && !/^\S+(\s+\S+){4,5}$/.test(expression.trim())) {
    return "it needs five fields (minute hour day month weekday), six with seconds first, or one of @hourly, @daily, @weekly, @monthly, @yearly"
  }
  try {
    const first = parseCron(expression, "UTC").nextRun(new Date("2000-01-01T00:00:00Z"))
    return first === null ? "it has no date in the calendar" : null
  } catch (error) {
    return messageOf(error).replace(/^Cron(Pattern|Date)?: /, "")
  }
}

/** Returns the next `count` ticks after an instant. Cached: schedules that share an expression are due together. */
export const nextTicks = (expression: string, timezone: string, after: Date, count: number): readonly Date[] => {
  const key = `${timezone} ${expression} ${after.getTime()} ${count}`
  return ticksCache.get(key) ?? remember(ticksCache, key, findTicks(expression, timezone, after, count))
}

const findTicks = (expression: string, timezone: string, after: Date, count: number): Date[] => {
  if (!restrictsDays(expression)) return parseCron(expression, timezone).nextRuns(count, after)
  const ticks: Date[] = []
  for (let tick = nextTick(expression, timezone, after); tick !== null && ticks.length < count;) {
    ticks.push(tick)
    tick = nextTick(expression, timezone, tick)
  }
  return ticks
}

/** True when the field of the day of the month is not `*`. */
const restrictsDays = (expression: string): boolean => {
  const fields = expression.trim().split(/\s+/)
  return fields.length >= 5 && !["*", "?"].includes(fields.at(-3)!)
}

const MARCH = "0 0 0 1 3 *"

/**
 * Returns the next tick. Works around croner 11, which searches days 30 and 31 in February and continues in March from there, so
 * that it misses ticks on March 1 and 2 (`0 0 1,15,30 * *`): a step over the end of February is repeated from March 1.
 */
const nextTick = (expression: string, timezone: string, after: Date): Date | null => {
  const cron = parseCron(expression, timezone)
  const tick = cron.nextRun(after)
  if (tick === null) return null
  const march = parseCron(MARCH, timezone).nextRun(after)
  if (march === null || march >= tick) return tick
  return cron.match(march) ? march : cron.nextRun(march)
}

/** Returns the last `count` ticks up to and including an instant, oldest first. */
export const previousTicks = (expression: string, timezone: string, until: Date, count: number): Date[] =>
  parseCron(expression, timezone)
    .previousRuns(count, new Date(Math.floor(until.getTime() / 1000) * 1000 + 1000))
    .toReversed()

export const isTimezone = (name: string): boolean => {
  if (name === "UTC") return true
  try {
    new Intl.DateTimeFormat("en", { timeZone: name })
    return /^[A-Za-z]/.test(name)
  } catch {
    return false
  }
}

/** True for a day `2026-01-31` or an instant `2026-01-31T10:00:00Z` that the calendar has. */
export const isDateText = (text: string): boolean => {
  const match = /^(\d{4})-(\d{2})-(\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2}))?$/.exec(text)
  if (match === null) return false
  const [, year, month, day, time] = match
  const midnight = new Date(`${year}-${month}-${day}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || midnight.getUTCDate() !== Number(day)) return false
  return time === undefined || !Number.isNaN(Date.parse(text))
}
