// Live attempts of jobs that were cancelled or deleted, and of groups that are overdue. Their holder hears of them at each turn until they have ended, and
// whatever it says of them then, they are not tried again.

import { amendJobChange } from "../../../core/rules/amend-change.ts"
import type { Change } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import type { Claimer } from "../claim/claim.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

const STOP = `
INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = ? ON CONFLICT DO NOTHING`

export const requestStop = (tx: Tx, row: number): void => {
  tx.db.run(STOP, row)
  tx.wakeOthers = true
}

const OF_HOLDER = "SELECT attempt_id FROM stop_requests WHERE holder = ? ORDER BY task_id"

export const stopRequestsOf = (tx: Tx, taker: Claimer): AttemptId[] =>
  taker === null ? [] : tx.db.all<[AttemptId]>(OF_HOLDER, taker.seq).map(([attemptId]) => attemptId)

const OVER = "DELETE FROM stop_requests WHERE task_id = ?"

/** It has ended. */
export const deleteStopRequest = (tx: Tx, row: number): boolean => tx.db.run(OVER, row) === 1

/** Returns the change to apply to a job's row. A change that ends the attempt fulfils its stop request. */
export const amendJob = (tx: Tx, row: LoadedRow, change: Change): Change => {
  const endsAttempt = change.kind === "finish" || change.kind === "retry" || change.kind === "release"
  return amendJobChange(change, endsAttempt && deleteStopRequest(tx, row.id), tx.now)
}
