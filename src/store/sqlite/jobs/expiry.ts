// Expiry of jobs: a job that has not started some time after it became available fails.

import { JOB_EXPIRED } from "../../../core/rules/messages.ts"
import { hasNotStarted, isFirstClaim } from "../../shared/job-rows.ts"
import type { BatchEffects } from "../advance/batch-effects.ts"
import { loadRows } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"
import { emitJob } from "./job-status.ts"
import { deleteExpiry, hasExpiryPassed, passExpiry } from "./times.ts"

const EXPIRE = `
UPDATE tasks SET status = 'failed', error = ?, finished_at = ?, parked = NULL, available_at = NULL WHERE id = ?`

/** Fails those of these jobs that have not started. */
export const expireJobs = (tx: Tx, effects: BatchEffects, rows: readonly number[]): void => {
  for (const row of loadRows(tx.db, rows).values()) {
    if (isFirstClaim(row)) {
      passExpiry(tx, row.id)
      continue
    }
    deleteExpiry(tx, row.id)
    if (!hasNotStarted(row)) continue
    tx.db.run(EXPIRE, JOB_EXPIRED, tx.at, row.id)
    emitJob(tx, row, "FAILED", { error: JOB_EXPIRED })
    effects.unparkInPlaceOf(row.limits)
    effects.finish(row, "failed", null)
  }
}

/** Fails a job whose first claim was released after its expiry. */
export const expireReleasedJob = (tx: Tx, effects: BatchEffects, row: number): void => {
  if (hasExpiryPassed(tx, row)) expireJobs(tx, effects, [row])
}
