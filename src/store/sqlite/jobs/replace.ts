// Replaces a job that has not started by a new one with the same key. Its id and its dependencies stay.

import { availableAtMs, jobGroupNumber, hasNotStarted, jobLane, jobLimits, settingsColumn } from "../../shared/job-rows.ts"
import type { NewJob } from "../../contract/jobs.ts"
import { BatchEffects } from "../advance/batch-effects.ts"
import { loadRows } from "../cache/load-rows.ts"
import { limitText } from "../connection/limit-column.ts"
import type { Tx } from "../tx.ts"
import { setJobStatus } from "./job-status.ts"
import { deleteExpiry, setExpiry } from "./times.ts"

const WRITE = `
UPDATE jobs SET queue = ?, payload = ?, priority = ?, concurrency_key = ?, retry_policy = ?, task = ?, settings = ?, expires_ms = ?
WHERE task_id = ?`

const WRITE_ROW = `
UPDATE tasks SET lane = ?, priority = ?, workflow_id = ?, limits = ?, available_at = ?, parked = NULL WHERE id = ?`

/** Gives a job new settings. Does nothing when it has started or finished. */
export const replaceJob = (tx: Tx, row: number, by: NewJob): void => {
  const before = loadRows(tx.db, [row]).get(row)!
  if (!hasNotStarted(before)) return
  const { queue, payload, priority, concurrencyKey, retryPolicy, task, expiresMs } = by
  tx.db.run(
    WRITE,
    queue,
    JSON.stringify(payload),
    priority,
    concurrencyKey,
    JSON.stringify(retryPolicy),
    task === null ? null : JSON.stringify(task),
    settingsColumn(by),
    expiresMs,
    row,
  )
  const effects = new BatchEffects(tx)
  effects.unparkInPlaceOf(before.limits)
  const lane = jobLane(by)
  const availableMs = availableAtMs(by, tx.now)
  const availableAt = availableMs === null ? null : tx.iso(availableMs)
  tx.db.run(WRITE_ROW, lane, priority, jobGroupNumber(by), limitText(tx.limits.ensure(jobLimits(by))), availableAt, row)
  deleteExpiry(tx, row)
  if (before.upstreamPending === 0) setExpiry(tx, row, expiresMs, availableMs)
  setJobStatus(tx, { ...before, lane }, before.upstreamPending === 0 ? "READY" : "PENDING", { availableAt })
  effects.unpark()
}
