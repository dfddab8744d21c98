// An implementation of schedules that shares no code with Ork: it goes through every local date and time, and reads the clock changes
// of a time zone from the names of its offsets.

import type { Expression } from "./expressions.ts"

const MINUTE = 60_000
const DAY = 1440 * MINUTE
/** No zone changes its clock twice within this time. */
const SCAN_MS = 3 * DAY

/** Instants with one offset of the local clock. A local time is written as the milliseconds that it would have in UTC. */
interface Span {
  from: number
  to: number
  offset: number
}

export interface ZoneClock {
  name: string
  spans: readonly Span[]
  /** Instants of clock changes. */
  changes: readonly number[]
}

const offsetReader = (timeZone: string): ((instant: number) => number) => {
  const format = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" })
  return (instant) => {
    const name = format.formatToParts(instant).find(({ type }) => type === "timeZoneName")!.value
    const match = /^GMT(?:([+-])(\d\d):(\d\d))?$/.exec(name)!
    const [, sign, hours, minutes] = match
    return sign === undefined ? 0 : (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * MINUTE
  }
}

/** Reads the clock changes of a zone between two instants. */
export const zoneClock = (name: string, from: number, to: number): ZoneClock => {
  const offsetAt = offsetReader(name)
  const spans: Span[] = []
  let start = from
  let offset = offsetAt(from)
  for (let at = from; at < to; at += SCAN_MS) {
    const next = offsetAt(at + SCAN_MS)
    if (next === offset) continue
    let [before, change] = [at, at + SCAN_MS]
    while (change - before > MINUTE) {
      const middle = before + Math.floor((change - before) / 2 / MINUTE) * MINUTE
      if (offsetAt(middle) === offset) before = middle
      else change = middle
    }
    spans.push({ from: start, to: change, offset })
    start = change
    offset = next
  }
  spans.push({ from: start, to: to + SCAN_MS, offset })
  return { name, spans, changes: spans.slice(1).map((span) => span.from) }
}

const matchesDay = ({ days, months, weekdays, eitherDay }: Expression, local: number): boolean => {
  const date = new Date(local)
  if (!months.has(date.getUTCMonth() + 1)) return false
  const [day, weekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())]
  return eitherDay ? day || weekday : day && weekday
}

/** Returns the ticks from `from` (inclusive) to `to` (exclusive), which lie within the clock. */
export const expectedTicks = (expression: Expression, { spans }: ZoneClock, from: number, to: number): number[] => {
  const near = spans.filter((span) => span.to > from - 2 * DAY && span.from < to + 2 * DAY)
  const ticks = new Set<number>()
  const firstDay = Math.floor(from / DAY) * DAY - 2 * DAY
  for (let day = firstDay; day < to + 2 * DAY; day += DAY) {
    if (!matchesDay(expression, day)) continue
    for (const hour of expression.hours) {
      for (const minute of expression.minutes) {
        for (const second of expression.seconds) {
          const local = day + hour * 3_600_000 + minute * MINUTE + second * 1000
          for (const tick of instantsOf(expression, near, local)) if (tick >= from && tick < to) ticks.add(tick)
        }
      }
    }
  }
  return [...ticks].toSorted((a, b) => a - b)
}

/** A fixed time has one instant: the first one, or the next that exists. Another time has each instant at which the clock shows it. */
const instantsOf = ({ hasFixedTimes }: Expression, spans: readonly Span[], local: number): number[] => {
  if (!hasFixedTimes)
    return spans.flatMap(({ from, to, offset }) => (local - offset >= from && local - offset < to ? [local - offset] : []))
  const span = spans.find(({ to, offset }) => local < to + offset)
  return span === undefined ? [] : [Math.max(span.from, local - span.offset)]
}

/** Returns true if some date of the calendar matches. */
export const hasDates = (expression: Expression): boolean => {
  // The calendar repeats after 28 years from 2001 to 2099.
  const [from, to] = [Date.UTC(2020, 0, 1), Date.UTC(2048, 0, 1)]
  for (let day = from; day < to; day += DAY) if (matchesDay(expression, day)) return true
  return false
}
