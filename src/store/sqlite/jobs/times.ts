// When a job expires: a row of `deadlines`, which stays until it is due, also when the job has started before.

import type { Tx } from "../tx.ts"

const SET = `
INSERT INTO deadlines (task_id, at) VALUES (?, ?) ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = 0`

const DELETE = "DELETE FROM deadlines WHERE task_id = ?"

/** Sets when a job that is READY expires. `availableAt`: when it becomes available, null: now. */
export const setExpiry = (tx: Tx, row: number, expiresMs: number | null, availableAt: number | null): void => {
  if (expiresMs !== null) tx.db.run(SET, row, tx.iso((availableAt ?? tx.now) + expiresMs))
}

export const deleteExpiry = (tx: Tx, row: number): void => void tx.db.run(DELETE, row)
