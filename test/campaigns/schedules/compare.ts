// Compares the ticks of Ork with those of the oracle: for each expression and zone, around clock changes and at other times.

import { cronProblem, nextTicks, previousTicks } from "../../../src/core/time/cron.ts"
import { Rng } from "../../sim/rng.ts"
import { type Expression, randomExpression } from "./expressions.ts"
import { expectedTicks, hasDates, type ZoneClock, zoneClock } from "./oracle.ts"

const DAY = 86_400_000
const FROM = Date.UTC(2020, 0, 1)
const TO = Date.UTC(2040, 0, 1)
/** Time before and after an instant that is compared. */
const MARGIN_MS = 1.5 * DAY
/** Ticks of one comparison. */
const MAX_TICKS = 60

export interface ComparisonOptions {
  seed: number
  /** Expressions `first … first + count - 1` of the seed. */
  first: number
  count: number
  zones: readonly string[]
  /** Number of windows for each expression and zone: at clock changes, and one at any time. 0: all clock changes. */
  windows: number
}

export interface ComparisonResult {
  expressions: number
  windows: number
  ticks: number
  differences: string[]
}

export const compareTicks = ({ seed, first, count, zones, windows }: ComparisonOptions): ComparisonResult => {
  const result: ComparisonResult = { expressions: 0, windows: 0, ticks: 0, differences: [] }
  const clocks = zones.map((zone) => zoneClock(zone, FROM - 7 * DAY, TO + 7 * DAY))
  for (let i = first; i < first + count; i++) {
    const rng = new Rng("expression", seed, i)
    const expression = randomExpression(rng)
    result.expressions += 1
    if (!isAccepted(expression, result)) continue
    for (const clock of clocks) {
      for (const at of chooseInstants(rng, clock, windows)) compareWindow(expression, clock, at, result)
    }
  }
  return result
}

/** Returns false for an expression without dates, which Ork must reject. */
const isAccepted = (expression: Expression, { differences }: ComparisonResult): boolean => {
  const problem = cronProblem(expression.text)
  const exists = hasDates(expression)
  if ((problem === null) !== exists)
    differences.push(`${expression.text}: ${exists ? `rejected: ${problem}` : "accepted, but has no date"}`)
  return problem === null && exists
}

const chooseInstants = (rng: Rng, { changes }: ZoneClock, windows: number): number[] => {
  const within = changes.filter((change) => change > FROM && change < TO)
  const any = FROM + Math.floor(rng.next() * (TO - FROM))
  if (windows === 0) return [...within, any]
  return [...Array.from({ length: Math.min(windows - 1, within.length) }, () => rng.pick(within)), any]
}

const compareWindow = (expression: Expression, clock: ZoneClock, at: number, result: ComparisonResult): void => {
  const { text } = expression
  const all = expectedTicks(expression, clock, at - MARGIN_MS, at + MARGIN_MS)
  // Of many ticks, those around the middle.
  const center = Math.max(0, all.findIndex((tick) => tick >= at) - MAX_TICKS / 2)
  const expected = all.slice(center, center + MAX_TICKS)
  const isWhole = expected.length === all.length
  const from = isWhole ? at - MARGIN_MS : expected[0]!
  const to = isWhole ? at + MARGIN_MS : expected.at(-1)! + 1
  const next = nextTicks(text, clock.name, new Date(from - 1), expected.length + 1)
  const previous = previousTicks(text, clock.name, new Date(to - 1), expected.length + 1)
  const inside = (ticks: readonly Date[]): string =>
    ticks
      .map((tick) => tick.getTime())
      .filter((tick) => tick >= from && tick < to)
      .map((tick) => new Date(tick).toISOString())
      .join()
  const wanted = expected.map((tick) => new Date(tick).toISOString()).join()
  result.windows += 1
  result.ticks += expected.length
  for (const [direction, found] of [
    ["after", inside(next)],
    ["before", inside(previous)],
  ] as const) {
    if (found !== wanted)
      result.differences.push(
        `${text} in ${clock.name} near ${new Date(at).toISOString()}, ${direction}: ${found} instead of ${wanted}`,
      )
  }
}
