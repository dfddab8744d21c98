// Live attempts of jobs that were cancelled or deleted, and of groups whose time is over. Their holder hears of them at each turn (`look`) until they have ended,
// and whatever it says of them then, they are not tried again.

import { CANCELLED } from "../../shared/job-rows.ts"
import { anyOf } from "../connection/array-params.ts"
import type { Last } from "./coalesce-changes.ts"
import { type Runner, statement } from "../connection/session.ts"

const STOP = statement(
  "stops_add",
  "INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = $1 ON CONFLICT DO NOTHING",
)

export const stopAttempt = (tx: Runner, row: number): Promise<unknown> => tx.run(STOP, [row])

const OVER = statement("stops_over", "DELETE FROM stop_requests WHERE task_id = ANY ($1::bigint[])")

export const dropStops = (tx: Runner, rows: readonly number[]): Promise<unknown> => tx.run(OVER, [anyOf(rows)])

/** What becomes of the last word about a job's attempt. */
export const withStop = (change: Last, stopped: boolean, now: number): Last => {
  switch (change.kind) {
    case "finish":
      return change.status === "cancelled" ? cancelled(change, now) : change
    case "retry":
    case "release":
      return stopped ? cancelled(change, now) : change
    default:
      return change
  }
}

const cancelled = (change: Extract<Last, { kind: "finish" | "retry" | "release" }>, now: number): Last => {
  const { row, attemptId } = change
  const result = change.kind === "release" ? { startedAt: null, finishedAt: now } : change.result
  return { row, attemptId, kind: "finish", status: "cancelled", result: { ...result, state: "cancelled", error: CANCELLED } }
}
