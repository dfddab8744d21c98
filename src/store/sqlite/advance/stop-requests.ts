// Requests to stop an attempt in flight: of a job that was cancelled or deleted, or inside an overdue group. The holder receives
// its requests with every `advance` until the attempt has finished.

import { amendJobChange } from "../../../core/rules/changes/amend-change.ts"
import type { Change } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import type { Claimer } from "../claim/claim.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

const REQUEST = `
INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = ? ON CONFLICT DO NOTHING`

export const requestStop = (tx: Tx, row: number): void => {
  tx.db.run(REQUEST, row)
  tx.wake.noteWorkLeft()
}

const REQUEST_OF_HELD = `
INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = ? AND holder IS NOT NULL ON CONFLICT DO NOTHING`

/** Requests the end of a waiting row if a holder has claimed it, to check its condition. */
export const requestStopOfHeld = (tx: Tx, row: number): void => {
  tx.db.run(REQUEST_OF_HELD, row)
}

const OF_HOLDER = "SELECT attempt_id FROM stop_requests WHERE holder = ? ORDER BY task_id"

export const stopRequestsOf = (tx: Tx, claimer: Claimer): AttemptId[] =>
  claimer === null ? [] : tx.db.all<[AttemptId]>(OF_HOLDER, claimer.seq).map(([attemptId]) => attemptId)

const ANY = "SELECT 1 FROM stop_requests LIMIT 1"

export const hasStopRequests = (tx: Tx): boolean => tx.db.get(ANY) !== undefined

const DELETE = "DELETE FROM stop_requests WHERE task_id = ?"

/** Deletes the request of a finished attempt. */
export const deleteStopRequest = (tx: Tx, row: number): void => {
  tx.db.run(DELETE, row)
}

/** Returns the change to apply to a job's row. A change that ends the attempt fulfils its stop request. */
export const amendJob = (tx: Tx, row: LoadedRow, change: Change): Change => {
  const isFulfilled = row.stopRequested && (change.kind === "finish" || change.kind === "retry" || change.kind === "release")
  if (isFulfilled) deleteStopRequest(tx, row.id)
  return amendJobChange(change, isFulfilled, tx.now)
}
