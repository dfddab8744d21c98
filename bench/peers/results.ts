// The figures of all rounds, and their medians.

import type { Workload } from "./products.ts"

export interface Round {
  product: string
  workload: Workload
  figures: Record<string, number>
}

export interface Figure {
  median: number
  low: number
  high: number
}

/** Returns the median and the spread of a figure; null when the product has none. */
export const figureOf = (rounds: readonly Round[], product: string, name: string): Figure | null => {
  const values = rounds
    .filter((round) => round.product === product)
    .flatMap(({ figures }) => figures[name] ?? [])
    .toSorted((a, b) => a - b)
  if (values.length === 0) return null
  return { median: values[values.length >> 1]!, low: values[0]!, high: values.at(-1)! }
}
