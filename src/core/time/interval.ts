// Schedules by interval, in the form `@every 5m`: they tick at the multiples of the interval since 1970 in UTC, whatever their time zone.

import { formatDuration, parseDuration } from "../values/quantities.ts"

const PREFIX = "@every "
export const SHORTEST_INTERVAL_MS = 1000

export const intervalExpression = (ms: number): string => `${PREFIX}${formatDuration(ms)}`

export const isInterval = (expression: string): boolean => expression.startsWith(PREFIX)

export const intervalProblem = (expression: string): string | null => {
  const ms = parseDuration(expression.slice(PREFIX.length))
  return ms === null || ms < SHORTEST_INTERVAL_MS ? "an interval must be a duration of at least 1s, such as @every 5m" : null
}

/** Returns the next `count` ticks after an instant. */
export const nextMultiples = (expression: string, after: number, count: number): Date[] => {
  const ms = parseDuration(expression.slice(PREFIX.length))!
  const first = Math.floor(after / ms) + 1
  return Array.from({ length: count }, (_, i) => new Date((first + i) * ms))
}

/** Returns the last `count` ticks up to and including an instant, oldest first. */
export const previousMultiples = (expression: string, until: number, count: number): Date[] => {
  const ms = parseDuration(expression.slice(PREFIX.length))!
  const last = Math.floor(until / ms)
  return Array.from({ length: count }, (_, i) => new Date((last - count + 1 + i) * ms))
}
