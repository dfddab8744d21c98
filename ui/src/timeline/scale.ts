// Places times on the axis. A break of a retried run is drawn short: hours in which nothing ran would hide the work around them. Pure.

import { type Range, rangeOf } from "./axis.ts"

/** Length of a break on the axis, as a part of the time outside of breaks. */
const BREAK_PART = 0.06

export interface ScaledBreak extends Range {
  /** Nothing has begun since. */
  open: boolean
  /** Place and length on the axis. */
  place: number
  length: number
}

export interface TimeScale {
  /** Length of the axis, in milliseconds of the time outside of breaks. */
  length: number
  breaks: ScaledBreak[]
  /** The times between the breaks. */
  parts: Range[]
  placeOf(at: number): number
  timeAt(place: number): number
}

/** Returns the time at the end of the axis. It changes rarely while the run continues. */
export const axisEnd = (
  { startedAt, finishedAt, now }: { startedAt: number; finishedAt: number | null; now: number },
  breaks: readonly Range[],
): number => {
  const end = finishedAt ?? now
  const paused = breaks.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, end) - from), 0)
  return paused + rangeOf(startedAt, finishedAt === null ? null : finishedAt - paused, now - paused).to
}

export const scaleOf = ({ from: start, to: end }: Range, breaks: readonly Range[]): TimeScale => {
  const pauses = breaks
    .filter(({ from }) => from < end)
    .map(({ from, to }) => ({ from, to: Math.min(to, end), open: to === Infinity }))
  const paused = pauses.reduce((sum, { from, to }) => sum + to - from, 0)
  const most = BREAK_PART * Math.max(end - start - paused, 1)
  const scaled: ScaledBreak[] = []
  const parts: Range[] = []
  let [at, place] = [start, 0]
  for (const pause of pauses) {
    parts.push({ from: at, to: pause.from })
    place += pause.from - at
    const length = Math.min(pause.to - pause.from, most)
    scaled.push({ ...pause, place, length })
    place += length
    at = pause.to
  }
  parts.push({ from: at, to: end })
  const marks = [
    { time: start, place: 0 },
    ...scaled.flatMap((pause) => [
      { time: pause.from, place: pause.place },
      { time: pause.to, place: pause.place + pause.length },
    ]),
  ]
  return {
    length: place + end - at,
    breaks: scaled,
    parts,
    placeOf: (time) => interpolate(marks, time, "time", "place"),
    timeAt: (target) => interpolate(marks, target, "place", "time"),
  }
}

type Mark = Record<"time" | "place", number>

/** Maps a value between the marks around it; outside of breaks, both axes advance alike. */
const interpolate = (marks: readonly Mark[], value: number, from: keyof Mark, to: keyof Mark): number => {
  const index = Math.max(
    0,
    marks.findLastIndex((mark) => mark[from] <= value),
  )
  const [before, after] = [marks[index]!, marks[index + 1]]
  const isBreak = index % 2 === 1 && after !== undefined
  const rate = isBreak ? (after[to] - before[to]) / (after[from] - before[from]) : 1
  return before[to] + (value - before[from]) * rate
}
