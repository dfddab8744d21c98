// The time axis: positions of the ticks and limits of the zoom. Pure; labels are in the user's time zone.

import { clockText, dayText } from "../format/time.ts"

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const times = (unit: number, counts: readonly number[]): number[] => counts.map((count) => count * unit)

const STEPS = [
  ...times(1, [1, 2, 5, 10, 20, 50, 100, 200, 500]),
  ...times(SECOND, [1, 2, 5, 10, 15, 30]),
  ...times(MINUTE, [1, 2, 5, 10, 15, 30]),
  ...times(HOUR, [1, 2, 3, 6, 12]),
  ...times(DAY, [1, 2, 7, 14, 30, 90, 365]),
]

export interface Tick {
  at: number
  text: string
}

/** Returns the smallest round step with at least this many pixels between ticks. */
export const stepFor = (msPerPixel: number, gap = 96): number => STEPS.find((step) => step >= msPerPixel * gap) ?? STEPS.at(-1)!

/** Returns the ticks of a range at round times of the user's time zone. */
export const ticksOf = (from: number, to: number, step: number): Tick[] => {
  const zone = new Date(from).getTimezoneOffset() * MINUTE
  const ticks: Tick[] = []
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to && ticks.length < 200; at += step) {
    ticks.push({ at, text: textOf(at, step) })
  }
  return ticks
}

const textOf = (at: number, step: number): string => {
  if (step >= DAY) return dayText(at, at)
  if (step >= MINUTE) return clockText(at)
  if (step >= SECOND) return clockText(at, true)
  const ms = String(((at % SECOND) + SECOND) % SECOND).padStart(3, "0")
  return `${clockText(at, true).slice(3)}.${ms}`
}

export interface Range {
  from: number
  to: number
}

/** Returns the range of the timeline. While the run continues, the end lies slightly ahead, so that it changes rarely. */
export const rangeOf = (startedAt: number, finishedAt: number | null, now: number): Range => {
  const end = finishedAt ?? now
  const length = Math.max(end - startedAt, 100)
  if (finishedAt !== null) return { from: startedAt, to: startedAt + length * 1.02 }
  // Round up to a series of lengths that grow by a seventh.
  const rounded = 1.15 ** Math.ceil(Math.log(length * 1.05) / Math.log(1.15))
  return { from: startedAt, to: startedAt + rounded }
}

/** Browsers limit the width of elements to some millions of pixels. */
const MAX_PIXELS = 4_000_000

export const zoomBy = (zoom: number, factor: number, width: number): number =>
  Math.min(Math.max(1, zoom * factor), Math.max(1, MAX_PIXELS / Math.max(1, width)))

/** Returns the scroll position that keeps the time under the pointer in place. `at` is in pixels from the left edge of the visible part. */
export const scrollAfterZoom = (scroll: number, at: number, before: number, after: number): number =>
  Math.max(0, ((scroll + at) * after) / before - at)
