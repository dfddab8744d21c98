// When a schedule fires, and which of the ticks it missed are made up for. Pure: instants in, instants out.

import { createHash } from "node:crypto"
import { nextTicks, previousTicks } from "./cron.ts"
import type { ScheduleSpec } from "../model/workflow.ts"

/** A tick this late still runs without any catch-up. */
export const LATE_MS = 60_000
const MOST_CAUGHT_UP = 100

type Timed = Pick<ScheduleSpec, "cron" | "timezone" | "catchup" | "jitterMs" | "start" | "end">

/** Spreads schedules that share a tick; the same tick always waits as long, on every server. */
const jitter = (spec: Timed, key: string, tick: number): number => {
  if (!spec.jitterMs) return 0
  const hash = createHash("sha256").update(`${key} ${tick}`).digest()
  return Math.floor((hash.readUInt32BE(0) / 2 ** 32) * spec.jitterMs)
}

export interface Firing {
  /** The moment of the cron expression: the run's logical date and the key that makes it one run. */
  tick: number
  /** The moment that it fires: the tick, plus the schedule's jitter. */
  at: number
}

const firing = (spec: Timed, key: string, tick: number): Firing => ({ tick, at: tick + jitter(spec, key, tick) })

const within = (spec: Timed, tick: number): boolean =>
  (spec.start === undefined || tick >= Date.parse(spec.start)) && (spec.end === undefined || tick < Date.parse(spec.end))

/** The first firing after an instant, or null when there is none any more. */
export const nextFiring = (spec: Timed, key: string, after: number): Firing | null =>
  nextFirings(spec, key, after, 1)[0] ?? null

/** The next ones, for people and for the store. */
export const nextFirings = (spec: Timed, key: string, after: number, count: number): Firing[] => {
  const from = Math.max(after - (spec.jitterMs ?? 0), spec.start === undefined ? 0 : Date.parse(spec.start) - 1)
  const ahead = count + (spec.jitterMs ? JITTER_SLACK : 0)
  return nextTicks(spec.cron, spec.timezone, new Date(from), ahead)
    .map((tick) => firing(spec, key, tick.getTime()))
    .filter(({ tick, at }) => at > after && within(spec, tick))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, count)
}

/** Ticks closer together than their jitter may fire out of order; this many are looked at. */
const JITTER_SLACK = 64

/**
 * What is due now, oldest first, for a schedule whose next firing was `nextAt`: by `catchup`, all that is at most a minute late,
 * the latest, or all up to a cap (the newest of them).
 */
export const dueFirings = (spec: Timed, key: string, nextAt: number, now: number): Firing[] => {
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
      return due
    default:
      return spec.catchup satisfies never
  }
}

/** Nearly always there is one; only after a long time away it is worth counting back from now. */
const ticksBetween = (spec: Timed, from: number, to: number): readonly Date[] => {
  const first = nextTicks(spec.cron, spec.timezone, new Date(from - 1), FEW)
  if (first.length < FEW || first[FEW - 1]!.getTime() > to) return first.filter((tick) => tick.getTime() <= to)
  return previousTicks(spec.cron, spec.timezone, new Date(to), MOST_CAUGHT_UP)
}

const FEW = 3

const formats = new Map<string, Intl.DateTimeFormat>()
const MOST_FORMATS = 100

/** The day of an instant in a zone: `2026-01-31`. */
export const dayIn = (timezone: string, instant: Date): string => {
  const format =
    formats.get(timezone) ??
    new Intl.DateTimeFormat("en-CA", { timeZone: timezone, year: "numeric", month: "2-digit", day: "2-digit" })
  formats.set(timezone, format)
  if (formats.size > MOST_FORMATS) formats.delete(formats.keys().next().value!)
  return format.format(instant)
}

/**
 * The first ticks from `from` to `to`, both included, and where to go on; null: nowhere. A page at a time: finding a tick takes
 * long enough that a server should not look for thousands in one go.
 */
export const ticksIn = (spec: Timed, from: number, to: number): { ticks: number[]; next: number | null } => {
  const page = nextTicks(spec.cron, spec.timezone, new Date(from - 1), TICK_PAGE).map((tick) => tick.getTime())
  const last = page.at(-1)
  const over = page.length < TICK_PAGE || last! >= Math.min(to, spec.end === undefined ? to : Date.parse(spec.end))
  return { ticks: page.filter((tick) => tick >= from && tick <= to && within(spec, tick)), next: over ? null : last! + 1 }
}

const TICK_PAGE = 50
