// Conditions on the partial indexes of ready and parked rows, and the statement that makes most rows ready.

import type { Tx } from "../tx.ts"

/** Condition of the index `tasks_ready`: the row can be claimed. */
export const READY =
  "status = 'pending' AND attempt_id IS NULL AND upstream_pending = 0 AND parked IS NULL AND available_at IS NULL"

/** All priorities of tasks: lets a statement use an index whose priority comes before the run. */
export const ANY_PRIORITY = "priority IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"

const ANY = `SELECT 1 FROM tasks INDEXED BY tasks_ready WHERE ${READY} LIMIT 1`

/** Returns whether a row of any lane can be claimed now. */
export const hasReadyRows = (tx: Tx): boolean => tx.db.get(ANY) !== undefined

const UNBLOCK = `
UPDATE tasks SET upstream_pending = upstream_pending - ? WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending'`

/** Counts down a row, of whose upstream tasks `finished` have succeeded. */
export const unblock = (tx: Tx, row: { runSeq: number; node: number; path: string; finished: number }): void =>
  tx.db.put(UNBLOCK, row.finished, row.runSeq, row.node, row.path)
