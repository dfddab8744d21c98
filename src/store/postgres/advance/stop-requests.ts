// Live attempts of jobs that were cancelled or deleted, and of groups whose time is over. Their holder hears of them at each turn (`look`) until they have ended,
// and whatever it says of them then, they are not tried again.

import { JOB_CANCELLED } from "../../../core/rules/messages.ts"
import { anyParam } from "../connection/array-params.ts"
import type { FinalChange } from "./coalesce-changes.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const STOP = statement(
  "stops_add",
  "INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = $1 ON CONFLICT DO NOTHING",
)

export const stopAttempt = (tx: SqlRunner, row: number): Promise<unknown> => tx.run(STOP, [row])

const OVER = statement("stops_over", "DELETE FROM stop_requests WHERE task_id = ANY ($1::bigint[])")

export const dropStops = (tx: SqlRunner, rows: readonly number[]): Promise<unknown> => tx.run(OVER, [anyParam(rows)])

/** What becomes of the last word about a job's attempt. */
export const withStop = (change: FinalChange, stopped: boolean, now: number): FinalChange => {
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

const cancelled = (change: Extract<FinalChange, { kind: "finish" | "retry" | "release" }>, now: number): FinalChange => {
  const { row, attemptId } = change
  const result = change.kind === "release" ? { startedAt: null, finishedAt: now } : change.result
  return {
    row,
    attemptId,
    kind: "finish",
    status: "cancelled",
    result: { ...result, state: "cancelled", error: JOB_CANCELLED },
  }
}
