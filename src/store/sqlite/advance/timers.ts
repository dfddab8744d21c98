// Timers of a transaction: makes due retries and delayed jobs ready, starts the cancel of runs past their timeout, finds groups past
// theirs and jobs past their expiry.

import { MAX_CANCEL, MAX_DUE } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { beginCancel } from "./cancel-pending.ts"
import type { Tx } from "../tx.ts"

/** Runs and groups in one statement, since every turn executes it. */
const OVERDUE = `
SELECT seq, NULL AS task_id, NULL AS run_seq FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL AND timeout_at <= ?1
UNION ALL
SELECT * FROM (
  SELECT NULL AS seq, d.task_id, t.run_seq FROM deadlines d CROSS JOIN tasks t ON t.id = d.task_id
  WHERE d.at IS NOT NULL AND d.at <= ?1 ORDER BY d.at LIMIT ${MAX_CANCEL})`

/** Starts the cancel of runs past their timeout. Returns the rows of groups past theirs, and of jobs past their expiry. */
export const startTimeouts = (tx: Tx): { groups: number[]; jobs: number[] } => {
  const due = { groups: [] as number[], jobs: [] as number[] }
  for (const [run, row, runSeq] of tx.db.all<[number | null, number | null, number | null]>(OVERDUE, tx.at)) {
    if (run !== null) beginCancel(tx, run, "timeout")
    else if (row !== null && runSeq !== null) due[isJobRow(runSeq) ? "jobs" : "groups"].push(row)
  }
  return due
}

const NEXT_RETRY = "SELECT available_at FROM tasks WHERE available_at IS NOT NULL ORDER BY available_at LIMIT 1"

const MAKE_DUE_READY = `
UPDATE tasks SET available_at = NULL WHERE id IN (
  SELECT id FROM tasks WHERE available_at IS NOT NULL AND available_at <= ? ORDER BY available_at LIMIT ? + 0)`

/** Makes due retries ready. Returns whether more are due than one transaction handles. */
export const fireTimers = (tx: Tx): boolean => {
  const next = tx.db.get<[string]>(NEXT_RETRY)
  return next !== undefined && next[0] <= tx.at && tx.db.run(MAKE_DUE_READY, tx.at, MAX_DUE) === MAX_DUE
}

const NEXT_TIMEOUT = `
SELECT * FROM (
  SELECT timeout_at AS due FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL ORDER BY timeout_at LIMIT 1)
UNION ALL
SELECT * FROM (SELECT at FROM deadlines WHERE at IS NOT NULL ORDER BY at LIMIT 1)`

/** Returns the milliseconds until the next retry or timeout, or null. */
export const nextDueMs = (tx: Tx): number | null => {
  const due = [...tx.db.all<[string]>(NEXT_RETRY), ...tx.db.all<[string]>(NEXT_TIMEOUT)]
  return due.length === 0 ? null : Math.max(0, Math.min(...due.map(([at]) => Date.parse(at))) - tx.now)
}
