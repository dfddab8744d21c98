// The difference of two values as lines of JSON.

import { isObject, type Json } from "../../core/values/json.ts"

/** Returns the lines of both values: `- ` only expected, `+ ` only found, `  ` in both. */
export const lineDiff = (expected: Json, found: Json): string[] => {
  const [a, b] = [linesOf(expected), linesOf(found)]
  // Length of the longest common subsequence of the lines from i and j on.
  const common: number[][] = Array.from({ length: a.length + 1 }, () => Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
    }
  }
  const lines: string[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(`  ${a[i++]}`)
      j++
    } else if (j === b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push(`- ${a[i++]}`)
    } else {
      lines.push(`+ ${b[j++]}`)
    }
  }
  return lines
}

const linesOf = (value: Json): string[] => JSON.stringify(sorted(value), null, 2).split("\n")

/** Sorts keys: their order has no meaning. */
const sorted = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]))
}
