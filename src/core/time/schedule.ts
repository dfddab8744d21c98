// Computes when a schedule fires, and which missed ticks it catches up on. Instants are epoch milliseconds.

import { createHash } from "node:crypto"
import { nextTicks, previousTicks } from "./cron.ts"
import { instantOf } from "./zone.ts"
import type { CompiledWorkflow, ScheduleSpec } from "../model/workflow.ts"
import { BoundedMap } from "../values/bounded-map.ts"

/** A tick that is at most this late fires without catch-up. */
const LATE_MS = 60_000
const MAX_CATCHUP = 100

type Timing = Pick<ScheduleSpec, "cron" | "timezone" | "catchup" | "jitterMs" | "start" | "end">

/** Returns the delay that spreads schedules with the same tick. It depends on key and tick only, so all servers agree. */
const jitter = (spec: Timing, key: string, tick: number): number => {
  if (!spec.jitterMs) return 0
  const hash = createHash("sha256").update(`${key} ${tick}`).digest()
  return Math.floor((hash.readUInt32BE(0) / 2 ** 32) * spec.jitterMs)
}

export interface Firing {
  /** Instant of the cron expression: the run's logical date, and the key that prevents a second run. */
  tick: number
  /** Instant at which it fires: the tick plus jitter. */
  at: number
}

const firing = (spec: Timing, key: string, tick: number): Firing => ({ tick, at: tick + jitter(spec, key, tick) })

const DAY = /^\d{4}-\d{2}-\d{2}$/
const DAY_MS = 86_400_000

/** Returns the instant at which a date begins. A day begins at its midnight in the time zone. */
export const startOf = (date: string, timezone: string): number =>
  DAY.test(date) ? instantOf(timezone, Date.parse(date)) : Date.parse(date)

/** Returns the instant at which a date ends: the start of the day after a day, or the instant itself. */
const endOf = (date: string, timezone: string): number =>
  DAY.test(date) ? instantOf(timezone, Date.parse(date) + DAY_MS) : Date.parse(date)

/** Returns the last instant of a date: the last millisecond of a day, or the instant itself. */
export const lastInstantOf = (date: string, timezone: string): number =>
  DAY.test(date) ? endOf(date, timezone) - 1 : Date.parse(date)

const within = (spec: Timing, tick: number): boolean =>
  (spec.start === undefined || tick >= startOf(spec.start, spec.timezone)) &&
  (spec.end === undefined || tick < endOf(spec.end, spec.timezone))

/**
 * Returns the first firing of a new schedule, or null when there is none: with `catchup: all` the first one since a past `start`,
 * otherwise the first one after `now`.
 */
export const firstFiring = (spec: Timing, key: string, now: number): Firing | null => {
  const start = spec.catchup === "all" && spec.start !== undefined ? startOf(spec.start, spec.timezone) - 1 : now
  return nextFiring(spec, key, Math.min(start, now))
}

/** Returns the first firing after an instant, or null when there are no more. */
export const nextFiring = (spec: Timing, key: string, after: number): Firing | null =>
  nextFirings(spec, key, after, 1)[0] ?? null

/** Returns the next `count` firings after an instant. */
export const nextFirings = (spec: Timing, key: string, after: number, count: number): Firing[] => {
  const from = Math.max(after - (spec.jitterMs ?? 0), spec.start === undefined ? 0 : startOf(spec.start, spec.timezone) - 1)
  const ahead = count + (spec.jitterMs ? JITTER_SLACK : 0)
  return nextTicks(spec.cron, spec.timezone, new Date(from), ahead)
    .map((tick) => firing(spec, key, tick.getTime()))
    .filter(({ tick, at }) => at > after && within(spec, tick))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, count)
}

/** Maximum number of ticks in a period as long as the jitter: a search for firings considers that many ticks. */
const MAX_JITTERED_TICKS = 64
/** Ticks that are closer together than their jitter fire out of order: those before and after an instant count. */
const JITTER_SLACK = 2 * MAX_JITTERED_TICKS
const SAMPLED_TICKS = 200

/** Returns the longest jitter that a cron expression allows, in milliseconds. */
export const longestJitter = (cron: string): number => {
  const ticks = nextTicks(cron, "UTC", new Date(0), SAMPLED_TICKS).map((tick) => tick.getTime())
  const spans = ticks.slice(MAX_JITTERED_TICKS).map((tick, i) => tick - ticks[i]!)
  return Math.min(...spans)
}

/**
 * Returns the firings that are due, oldest first, for a schedule whose next firing was at `nextAt`. `catchup` selects those that are
 * at most a minute late (none), the latest, or all (of many, the newest).
 */
export const dueFirings = (spec: Timing, key: string, nextAt: number, now: number): Firing[] => {
  const due = ticksBetween(spec, nextAt - (spec.jitterMs ?? 0), now)
    .map((tick) => firing(spec, key, tick.getTime()))
    .filter(({ tick, at }) => at >= nextAt && at <= now && within(spec, tick))
    .toSorted((a, b) => a.at - b.at)
  switch (spec.catchup) {
    case "none":
      return due.filter(({ at }) => now - at <= LATE_MS)
    case "latest":
      return due.slice(-1)
    case "all":
      return due.slice(-MAX_CATCHUP)
    default:
      return spec.catchup satisfies never
  }
}

/**
 * Returns the ticks of an interval. Usually one tick is due. Only when more than a few are, after a long downtime, the ticks are
 * counted back from `to`.
 */
const ticksBetween = (spec: Timing, from: number, to: number): readonly Date[] => {
  const first = nextTicks(spec.cron, spec.timezone, new Date(from - 1), FEW)
  if (first.length < FEW || first[FEW - 1]!.getTime() > to) return first.filter((tick) => tick.getTime() <= to)
  return previousTicks(spec.cron, spec.timezone, new Date(to), MAX_CATCHUP + MAX_JITTERED_TICKS)
}

const FEW = 3

const formats = new BoundedMap<string, Intl.DateTimeFormat>(100)

/** Returns the day of an instant in a time zone: `2026-01-31`. */
export const dayIn = (timezone: string, instant: Date): string =>
  formats
    .getOrCreate(
      timezone,
      () => new Intl.DateTimeFormat("en-CA", { timeZone: timezone, year: "numeric", month: "2-digit", day: "2-digit" }),
    )
    .format(instant)

/**
 * Returns the day of a run's logical date, in the time zone of the schedule that created the run, else of the workflow's first
 * schedule.
 */
export const logicalDay = (
  logicalDate: string,
  timezone: string | null,
  { schedules }: Pick<CompiledWorkflow, "schedules">,
): string => dayIn(timezone ?? schedules[0]?.timezone ?? "UTC", new Date(logicalDate))

/**
 * Returns a page of the ticks from `from` to `to`, both inclusive, and the start of the next page; null after the last. Paged, because
 * searching thousands of ticks would block a server.
 */
export const ticksIn = (spec: Timing, from: number, to: number): { ticks: number[]; next: number | null } => {
  const page = nextTicks(spec.cron, spec.timezone, new Date(from - 1), TICK_PAGE).map((tick) => tick.getTime())
  const last = page.at(-1)
  const isLast = page.length < TICK_PAGE || last! >= Math.min(to, spec.end === undefined ? to : endOf(spec.end, spec.timezone))
  return { ticks: page.filter((tick) => tick >= from && tick <= to && within(spec, tick)), next: isLast ? null : last! + 1 }
}

const TICK_PAGE = 50
