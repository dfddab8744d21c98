// What the clock does: retries that are due become ready, runs past their time begin to be cancelled.

import { MAX_DUE } from "../bounds.ts"
import { beginCancel } from "./cancel.ts"
import type { Tx } from "./tx.ts"

const RELEASE_DUE = `
UPDATE tasks SET available_at = NULL WHERE id IN (
  SELECT id FROM tasks WHERE available_at IS NOT NULL AND available_at <= ? ORDER BY available_at LIMIT ? + 0)`

const OVERDUE = `
SELECT seq FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL AND timeout_at <= ?`

/** Returns whether more retries are due than one transaction takes. */
export const fireTimers = (tx: Tx): boolean => {
  for (const [seq] of tx.db.all<[number]>(OVERDUE, tx.at)) beginCancel(tx, seq, "timeout")
  const next = tx.db.get<[string]>(NEXT_RETRY)
  return next !== undefined && next[0] <= tx.at && tx.db.run(RELEASE_DUE, tx.at, MAX_DUE) === MAX_DUE
}

const NEXT_RETRY = "SELECT available_at FROM tasks WHERE available_at IS NOT NULL ORDER BY available_at LIMIT 1"

const NEXT_TIMEOUT = `
SELECT timeout_at FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL ORDER BY timeout_at LIMIT 1`

export const nextDueMs = (tx: Tx): number | null => {
  const due = [tx.db.get<[string]>(NEXT_RETRY), tx.db.get<[string]>(NEXT_TIMEOUT)].filter((row) => row !== undefined)
  return due.length === 0 ? null : Math.max(0, Math.min(...due.map(([at]) => Date.parse(at))) - tx.now)
}
