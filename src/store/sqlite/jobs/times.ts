// When a job expires: a row of `deadlines`, which stays until it is due, also when the job has started before. If a holder has claimed the
// job by then and not started it, the row stays as `passed`: the job expires when the claim is released.

import type { Tx } from "../tx.ts"

const SET = `
INSERT INTO deadlines (task_id, at) VALUES (?, ?) ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = 0`

const DELETE = "DELETE FROM deadlines WHERE task_id = ?"

/** Sets when a job that is READY expires. `availableAt`: when it becomes available, null: now. */
export const setExpiry = (tx: Tx, row: number, expiresMs: number | null, availableAt: number | null): void => {
  if (expiresMs !== null) tx.db.run(SET, row, tx.iso((availableAt ?? tx.now) + expiresMs))
}

export const deleteExpiry = (tx: Tx, row: number): void => void tx.db.run(DELETE, row)

const PASS = "UPDATE deadlines SET at = NULL, passed = 1 WHERE task_id = ?"

/** Notes that the expiry of a claimed job has passed. */
export const passExpiry = (tx: Tx, row: number): void => void tx.db.run(PASS, row)

const HAS_PASSED = "SELECT 1 FROM deadlines WHERE task_id = ? AND (passed = 1 OR at <= ?)"

export const hasExpiryPassed = (tx: Tx, row: number): boolean => tx.db.get<[number]>(HAS_PASSED, row, tx.at) !== undefined
