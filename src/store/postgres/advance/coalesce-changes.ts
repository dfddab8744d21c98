// Coalesces the changes of a batch by attempt: a start that its finish follows becomes one write. Changes after an attempt's final one
// are rejected, as they would be one by one, except for the finish of an attempt that waits.

import type { Change, Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"

export type Started = Extract<Change, { kind: "started" }>
/** A chunk of the instances of a fan-out. */
export type Expand = Extract<Change, { kind: "expand" }>
/** A chunk of the tasks of a group. */
export type OpenGroup = Extract<Change, { kind: "open_group" }>
export type Progressed = Extract<Change, { kind: "progress" }>
/** A change after which the attempt does not hold its row any more. */
export type LastChange = Exclude<Change, { kind: "started" | "progress" | "expand" | "open_group" }>

export interface AttemptChanges {
  fence: Fence
  start: Started | null
  /** The latest progress. */
  progress: Progressed | null
  expands: (Expand | OpenGroup)[]
  last: LastChange | null
}

export interface CoalescedChanges {
  attempts: AttemptChanges[]
  rejected: Fence[]
}

export const coalesceChanges = (changes: readonly Change[]): CoalescedChanges => {
  const attempts = new Map<AttemptId, AttemptChanges>()
  const rejected: Fence[] = []
  for (const change of changes) {
    const fence = { row: change.row, attemptId: change.attemptId }
    let attempt = attempts.get(change.attemptId)
    if (attempt === undefined)
      attempts.set(change.attemptId, (attempt = { fence, start: null, progress: null, expands: [], last: null }))
    if (attempt.fence.row !== change.row || !add(attempt, change)) rejected.push(fence)
  }
  return { attempts: [...attempts.values()], rejected }
}

const add = (attempt: AttemptChanges, change: Change): boolean => {
  if (attempt.last !== null) return replacesWait(attempt, change)
  switch (change.kind) {
    case "started":
      if (attempt.expands.length > 0) return false
      attempt.start ??= change
      return true
    case "progress":
      if (attempt.expands.length > 0) return false
      attempt.progress = change
      return true
    case "expand":
    case "open_group":
      if (attempt.start !== null) return false
      attempt.expands.push(change)
      return true
    default:
      attempt.last = change
      return true
  }
}

/**
 * Lets the finish of an attempt that waits replace its wait, which is sent again when the reply to its commit was lost. Only a lease
 * holder loses attempts, and an attempt that waits has none.
 */
const replacesWait = (attempt: AttemptChanges, change: Change): boolean => {
  if (attempt.last?.kind !== "wait" || change.kind !== "finish" || change.result.state === "lost") return false
  attempt.last = change
  return true
}
