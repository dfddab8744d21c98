// The segments of an instance on the timeline: waiting, attempts, and the delays between them. Pure.

import type { AttemptState, TaskStatus } from "../api/types.ts"
import type { Instance } from "../run/state.ts"

export interface Segment {
  /** wait: ready, not begun. run: an attempt. retry: until the next attempt may begin. */
  kind: "wait" | "run" | "retry"
  from: number
  to: number
  status: TaskStatus | AttemptState
  attempt: number
  /** The segment is still open: its end is the current time. */
  open: boolean
  /** The segment is on the critical path. */
  critical?: boolean
}

export const segmentsOf = (instance: Instance, readyAt: number | null, now: number): Segment[] => {
  const segments: Segment[] = []
  let since = readyAt
  let first = true
  const add = (kind: Segment["kind"], from: number, to: number, more: Pick<Segment, "status" | "attempt" | "open">): void => {
    if (to > from || kind === "run") segments.push({ kind, from, to: Math.max(from, to), ...more })
  }
  const waitUntil = (to: number, attempt: number, open = false): void => {
    if (since !== null) add(first ? "wait" : "retry", since, to, { status: "pending", attempt, open })
  }
  for (const past of instance.past) {
    const from = past.startedAt ?? past.dispatchedAt
    if (from === null) continue
    waitUntil(from, past.attempt)
    const to = past.finishedAt ?? from
    add("run", from, to, { status: past.status, attempt: past.attempt, open: false })
    since = to
    first = false
  }
  const { startedAt, finishedAt, status, attempt } = instance
  if (startedAt !== null) {
    waitUntil(startedAt, attempt)
    add("run", startedAt, finishedAt ?? now, { status, attempt, open: finishedAt === null })
  } else if (status === "dispatched" || (status === "pending" && (readyAt !== null || instance.past.length > 0))) {
    waitUntil(now, attempt + 1, true)
  }
  return segments
}

/** Merges the times in which at least one attempt runs or has succeeded: a fan-out in one line. Other attempts have bars of their own. */
export const unionOf = (instances: Iterable<Instance>, now: number): { from: number; to: number; open: boolean }[] => {
  const spans: { from: number; to: number; open: boolean }[] = []
  for (const { past, startedAt, finishedAt, status } of instances) {
    for (const attempt of past) {
      if (attempt.startedAt !== null && attempt.status === "success") {
        spans.push({ from: attempt.startedAt, to: attempt.finishedAt ?? attempt.startedAt, open: false })
      }
    }
    if (startedAt !== null && (finishedAt === null || status === "success")) {
      spans.push({ from: startedAt, to: finishedAt ?? now, open: finishedAt === null })
    }
  }
  spans.sort((a, b) => a.from - b.from)
  const joined: typeof spans = []
  for (const span of spans) {
    const last = joined.at(-1)
    if (last !== undefined && span.from <= last.to) {
      last.to = Math.max(last.to, span.to)
      last.open ||= span.open
    } else joined.push({ ...span })
  }
  return joined
}
