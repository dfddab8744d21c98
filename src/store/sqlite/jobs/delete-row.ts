// Deletes the task rows of jobs.

import { deleteExpiry } from "./times.ts"
import type { Tx } from "../tx.ts"

const DELETE_ATTEMPTS = "DELETE FROM attempts WHERE task_id = ?"
const DELETE_STEPS = "DELETE FROM steps WHERE task_id = ?"
const DELETE = "DELETE FROM tasks WHERE id = ?"

/** Deletes the task row of a deleted job that has no attempt in flight. */
export const deleteRow = (tx: Tx, row: number): void => {
  tx.db.run(DELETE_ATTEMPTS, row)
  tx.db.run(DELETE_STEPS, row)
  deleteExpiry(tx, row)
  tx.db.run(DELETE, row)
}
