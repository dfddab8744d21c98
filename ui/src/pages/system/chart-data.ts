// The server's statistics per minute as columns for a chart, limited in range and number of points.

import type { Stats } from "../../api/types.ts"

export type Series = NonNullable<Stats["series"]>

export const RANGES = { "1h": 60, "6h": 360, "24h": 1440 } as const
export type Range = keyof typeof RANGES

/** Largest number of points; more are indistinguishable on a screen. */
const MAX_POINTS = 240

export interface ChartData {
  /** Seconds since the epoch. */
  times: number[]
  columns: (number | null)[][]
}

type Fold = "sum" | "mean" | "last"

/** Minutes before the server's start are empty, so that the axis always has the full range. */
export const chartData = (
  series: Series,
  range: Range,
  columns: readonly { values: readonly (number | null)[]; fold: Fold }[],
): ChartData => {
  const minutes = RANGES[range]
  const step = Math.max(1, Math.ceil(minutes / MAX_POINTS))
  const points = Math.ceil(minutes / step)
  const length = series.success.length
  const end = Date.parse(series.from) / 1000 + length * 60
  const start = length - points * step
  return {
    times: Array.from({ length: points }, (_, i) => end - (points - i) * step * 60),
    columns: columns.map(({ values, fold }) =>
      Array.from({ length: points }, (_, i) => {
        const from = start + i * step
        return folded(values.slice(Math.max(0, from), Math.max(0, from + step)), fold, step)
      }),
    ),
  }
}

/** Sums are per minute, whatever the step. */
const folded = (values: readonly (number | null)[], fold: Fold, step: number): number | null => {
  const known = values.filter((value) => value !== null)
  if (known.length === 0) return null
  const sum = known.reduce((total, value) => total + value, 0)
  switch (fold) {
    case "sum":
      return sum / step
    case "mean":
      return sum / known.length
    case "last":
      return known.at(-1)!
    default:
      return fold satisfies never
  }
}

/** Returns the newest known value. */
export const latest = (values: readonly (number | null)[]): number | null => values.findLast((value) => value !== null) ?? null
