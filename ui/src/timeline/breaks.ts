// The breaks of a retried run: the run had ended, and nothing ran until the retry. Pure.

import type { PastAttempt, RunState } from "../run/state.ts"
import type { Range } from "./axis.ts"
import type { Segment } from "./segments.ts"

/**
 * Returns the longest times without an attempt that together last as long as the run was ended before its retries (`idleMs`). The last one
 * has no end when no attempt has begun since.
 */
export const breaksOf = (state: RunState, idleMs: number, now: number): Range[] => {
  if (idleMs === 0) return []
  const found: Range[] = []
  let sum = 0
  for (const gap of gapsOf(state, now).toSorted((a, b) => lengthOf(b, now) - lengthOf(a, now))) {
    if (sum >= idleMs) break
    sum += lengthOf(gap, now)
    found.push(gap)
  }
  return found.toSorted((a, b) => a.from - b.from)
}

const lengthOf = ({ from, to }: Range, now: number): number => Math.min(to, now) - from

/** Returns the times between the first attempt and now in which no attempt was in flight. */
const gapsOf = (state: RunState, now: number): Range[] => {
  const spans = attemptsOf(state).toSorted((a, b) => a.from - b.from)
  const gaps: Range[] = []
  let end = spans[0]?.to ?? now
  for (const { from, to } of spans) {
    if (from > end) gaps.push({ from: end, to: from })
    end = Math.max(end, to)
  }
  if (end < now) gaps.push({ from: end, to: Infinity })
  return gaps
}

const attemptsOf = (state: RunState): Range[] =>
  state.nodes.flatMap(({ instances }) =>
    [...instances.values()].flatMap((instance) => [...instance.past, instance].flatMap(spanOf)),
  )

const spanOf = ({ dispatchedAt, startedAt, finishedAt }: AttemptTimes): Range[] => {
  const from = startedAt ?? dispatchedAt
  return from === null ? [] : [{ from, to: finishedAt ?? Infinity }]
}

type AttemptTimes = Pick<PastAttempt, "dispatchedAt" | "startedAt" | "finishedAt">

/** Removes the breaks from the segments in which an instance waits. */
export const withoutBreaks = (segments: readonly Segment[], breaks: readonly Range[]): Segment[] =>
  breaks.length === 0
    ? [...segments]
    : segments.flatMap((segment) => (segment.kind === "run" ? [segment] : cut(segment, breaks)))

const cut = (segment: Segment, breaks: readonly Range[]): Segment[] => {
  const parts: Segment[] = []
  let { from } = segment
  for (const pause of breaks) {
    if (pause.to <= from || pause.from >= segment.to) continue
    if (pause.from > from) parts.push({ ...segment, from, to: pause.from, open: false })
    from = pause.to
  }
  if (from < segment.to) parts.push({ ...segment, from })
  return parts
}
