// Cron expressions through croner: five fields, six with seconds, or @daily and its like. Nothing else imports croner.

import { Cron } from "croner"

const KEPT = 1000
const kept = new Map<string, Cron>()

/** Parsed once: a server with thousands of schedules asks for the same ones again and again. */
const create = (expression: string, timezone: string): Cron => {
  const key = `${timezone} ${expression}`
  const known = kept.get(key)
  if (known !== undefined) return known
  const cron = new Cron(expression, { paused: true, timezone, mode: "5-or-6-parts" })
  kept.set(key, cron)
  if (kept.size > KEPT) kept.delete(kept.keys().next().value!)
  return cron
}

/** What is wrong with the expression, or null. */
export const cronProblem = (expression: string): string | null => {
  if (!expression.startsWith("@") && !/^\S+(\s+\S+){4,5}$/.test(expression.trim())) {
    return "a cron expression has five fields (minute hour day month weekday), or six with seconds first, or is @hourly, @daily, @weekly, @monthly, @yearly"
  }
  try {
    if (create(expression, "UTC").nextRun(new Date("2000-01-01T00:00:00Z")) === null) return "it never comes"
    return null
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^Cron(Pattern|Date)?: /, "") : String(error)
  }
}

const found = new Map<string, readonly Date[]>()

/** The ticks after an instant, in order. Kept for a while: schedules that share a cron expression are due together. */
export const nextTicks = (expression: string, timezone: string, after: Date, count: number): readonly Date[] => {
  const key = `${timezone} ${expression} ${after.getTime()} ${count}`
  const known = found.get(key)
  if (known !== undefined) return known
  const ticks = findTicks(expression, timezone, after, count)
  found.set(key, ticks)
  if (found.size > KEPT) found.delete(found.keys().next().value!)
  return ticks
}

const findTicks = (expression: string, timezone: string, after: Date, count: number): Date[] => {
  if (!namesDays(expression)) return create(expression, timezone).nextRuns(count, after)
  const ticks: Date[] = []
  for (let tick = nextTick(expression, timezone, after); tick !== null && ticks.length < count;) {
    ticks.push(tick)
    tick = nextTick(expression, timezone, tick)
  }
  return ticks
}

/** Whether the days of the month are other than all. */
const namesDays = (expression: string): boolean => {
  const fields = expression.trim().split(/\s+/)
  return fields.length >= 5 && !["*", "?"].includes(fields.at(-3)!)
}

const MARCH = "0 0 0 1 3 *"

/**
 * croner 11 looks for days 30 and 31 in February too and goes on from there, in March: what March 1 and 2 have before that is
 * passed over (`0 0 1,15,30 * *`). So a step over the end of February is taken again from March on.
 */
const nextTick = (expression: string, timezone: string, after: Date): Date | null => {
  const cron = create(expression, timezone)
  const tick = cron.nextRun(after)
  if (tick === null) return null
  const march = create(MARCH, timezone).nextRun(after)
  if (march === null || march >= tick) return tick
  return cron.match(march) ? march : cron.nextRun(march)
}

/** The last ticks up to and including an instant, oldest first. */
export const previousTicks = (expression: string, timezone: string, until: Date, count: number): Date[] =>
  create(expression, timezone)
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

/** `2026-01-31`, or an instant `2026-01-31T10:00:00Z`; days that the calendar does not have are refused. */
export const isDateText = (text: string): boolean => {
  const match = /^(\d{4})-(\d{2})-(\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2}))?$/.exec(text)
  if (match === null) return false
  const [, year, month, day, time] = match
  const midnight = new Date(`${year}-${month}-${day}T00:00:00Z`)
  if (Number.isNaN(midnight.getTime()) || midnight.getUTCDate() !== Number(day)) return false
  return time === undefined || !Number.isNaN(Date.parse(text))
}
