// Highlights search matches in the spans of a line; a match may cross spans.

import type { Span } from "./ansi.ts"

export interface Marked extends Span {
  hit: boolean
}

export const highlight = (spans: readonly Span[], wanted: string): Marked[] => {
  const text = spans.map((span) => span.text).join("")
  const ranges = rangesOf(text, wanted)
  if (ranges.length === 0) return spans.map((span) => ({ ...span, hit: false }))
  const marked: Marked[] = []
  let at = 0
  let next = 0
  for (const { text: own, style } of spans) {
    const end = at + own.length
    let from = at
    while (from < end) {
      while (next < ranges.length && ranges[next]!.end <= from) next += 1
      const range = ranges[next]
      const hit = range !== undefined && range.start <= from
      const to = Math.min(end, range === undefined ? end : hit ? range.end : range.start)
      marked.push({ text: text.slice(from, to), style, hit })
      from = to
    }
    at = end
  }
  return marked
}

const rangesOf = (text: string, wanted: string): { start: number; end: number }[] => {
  if (wanted === "") return []
  const lower = text.toLowerCase()
  // Offsets are invalid where the lower-case text has another length.
  if (lower.length !== text.length) return []
  const ranges: { start: number; end: number }[] = []
  for (let at = lower.indexOf(wanted.toLowerCase()); at !== -1; at = lower.indexOf(wanted.toLowerCase(), at + wanted.length)) {
    ranges.push({ start: at, end: at + wanted.length })
  }
  return ranges
}
