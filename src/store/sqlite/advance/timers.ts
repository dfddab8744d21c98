// Timers of a transaction: makes due retries and delayed jobs ready, starts the cancel of runs past their timeout, finds groups past
// theirs and jobs past their expiry.

import { MAX_DUE } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { beginCancel } from "./cancel-pending.ts"
import type { Tx } from "../tx.ts"

/** One statement, since every turn executes it: the next retry or delayed job, timeout of a run, timeout of a group, and expiry of a job. */
const NEXT = `
SELECT
  (SELECT available_at FROM tasks WHERE available_at IS NOT NULL ORDER BY available_at LIMIT 1),
  (SELECT timeout_at FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL ORDER BY timeout_at LIMIT 1),
  (SELECT at FROM deadlines WHERE at IS NOT NULL ORDER BY at LIMIT 1)`

/** Returns the time of the next timer, or null. */
const nextTimer = (tx: Tx): string | null => {
  const times = tx.db.get<(string | null)[]>(NEXT)!.filter((at) => at !== null)
  return times.length === 0 ? null : times.reduce((first, at) => (at < first ? at : first))
}

export const isTimerDue = (tx: Tx): boolean => {
  const next = nextTimer(tx)
  return next !== null && next <= tx.at
}

/** Returns the milliseconds until the next retry or timeout, or null. */
export const nextDueMs = (tx: Tx): number | null => {
  const next = nextTimer(tx)
  return next === null ? null : Math.max(0, Date.parse(next) - tx.now)
}

const OVERDUE = `
SELECT seq, NULL AS task_id, NULL AS run_seq FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL AND timeout_at <= ?1
UNION ALL
SELECT * FROM (
  SELECT NULL AS seq, d.task_id, t.run_seq FROM deadlines d CROSS JOIN tasks t ON t.id = d.task_id
  WHERE d.at IS NOT NULL AND d.at <= ?1 ORDER BY d.at LIMIT ${MAX_DUE})`

/** Starts the cancel of runs past their timeout. Returns the rows of groups past theirs, and of jobs past their expiry; `full`: there may be more. */
export const beginPassedTimeouts = (tx: Tx): { groups: number[]; jobs: number[]; full: boolean } => {
  const due = { groups: [] as number[], jobs: [] as number[] }
  for (const [run, row, runSeq] of tx.db.all<[number | null, number | null, number | null]>(OVERDUE, tx.at)) {
    if (run !== null) beginCancel(tx, run, "timeout")
    else if (row !== null && runSeq !== null) due[isJobRow(runSeq) ? "jobs" : "groups"].push(row)
  }
  return { ...due, full: due.groups.length + due.jobs.length === MAX_DUE }
}

const MAKE_DUE_READY = `
UPDATE tasks SET available_at = NULL WHERE id IN (
  SELECT id FROM tasks WHERE available_at IS NOT NULL AND available_at <= ? ORDER BY available_at LIMIT ? + 0)`

/** Makes due retries and delayed jobs ready. Returns whether more are due than one transaction handles. */
export const makeDueReady = (tx: Tx): boolean => tx.db.run(MAKE_DUE_READY, tx.at, MAX_DUE) === MAX_DUE
