// Timers of a transaction: makes due retries ready, starts the cancel of runs past their timeout, finds groups past theirs.

import { MAX_CANCEL, MAX_DUE } from "../../shared/bounds.ts"
import { beginCancel } from "./cancel-pending.ts"
import type { Tx } from "../tx.ts"

/** Runs and groups in one statement, since every turn executes it. */
const OVERDUE = `
SELECT seq, NULL FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL AND timeout_at <= ?1
UNION ALL
SELECT * FROM (SELECT NULL, task_id FROM deadlines WHERE at IS NOT NULL AND at <= ?1 ORDER BY at LIMIT ${MAX_CANCEL})`

/** Starts the cancel of runs past their timeout. Returns the rows of groups past theirs. */
export const startTimeouts = (tx: Tx): number[] => {
  const groups: number[] = []
  for (const [run, group] of tx.db.all<[number | null, number | null]>(OVERDUE, tx.at)) {
    if (run !== null) beginCancel(tx, run, "timeout")
    else if (group !== null) groups.push(group)
  }
  return groups
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
