// Live attempts of jobs that were cancelled or deleted, and of groups that are overdue. Their holder hears of them at each turn until they have ended, and
// whatever it says of them then, they are not tried again.

import type { Change } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import { CANCELLED } from "../../shared/job-rows.ts"
import type { Taker } from "../claim/claim.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

const STOP = `
INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = ? ON CONFLICT DO NOTHING`

export const stopAttempt = (tx: Tx, row: number): void => {
  tx.db.run(STOP, row)
  tx.wakeOthers = true
}

const OF_HOLDER = "SELECT attempt_id FROM stop_requests WHERE holder = ? ORDER BY task_id"

export const stoppedOf = (tx: Tx, taker: Taker): AttemptId[] =>
  taker === null ? [] : tx.db.all<[AttemptId]>(OF_HOLDER, taker.seq).map(([attemptId]) => attemptId)

const OVER = "DELETE FROM stop_requests WHERE task_id = ?"

/** It has ended. */
export const dropStop = (tx: Tx, row: number): boolean => tx.db.run(OVER, row) === 1

/** What becomes of a change about a job's attempt. */
export const withStops = (tx: Tx, row: LoadedRow, change: Change): Change => {
  switch (change.kind) {
    case "finish":
    case "retry":
    case "release": {
      const stopped = dropStop(tx, row.id)
      if (change.kind === "finish") return change.status === "cancelled" ? cancelled(tx, change) : change
      return stopped ? cancelled(tx, change) : change
    }
    default:
      return change
  }
}

const cancelled = (tx: Tx, change: Extract<Change, { kind: "finish" | "retry" | "release" }>): Change => {
  const { row, attemptId } = change
  const result = change.kind === "release" ? { startedAt: null, finishedAt: tx.now } : change.result
  return { row, attemptId, kind: "finish", status: "cancelled", result: { ...result, state: "cancelled", error: CANCELLED } }
}
