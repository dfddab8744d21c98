// Timeouts of groups. An open group with a timeout has a row in the table `deadlines` (timeouts of groups, expiries of jobs). Once it has passed, the transaction cancels pending rows
// inside the group, resumes waiting ones and requests a stop of attempts in flight; the gather finishes the group as timed out. A
// row that becomes pending inside later (core/rules/changes/amend-change.ts) is cancelled in the same transaction, so that a passed
// timeout needs no further timer.

import { amendOverdueChange } from "../../../core/rules/changes/amend-change.ts"
import type { Change } from "../../../core/model/change.ts"
import { isUnderGroupTimeout } from "../../../core/model/task-path.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { IS_AFFECTED_BY_CANCEL } from "../../shared/cancellable.ts"
import { CANCELLABLE_COLUMNS, type CancellableColumns, cancelOrStopCreating } from "./cancel-pending.ts"
import type { BatchEffects } from "./batch-effects.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import { deleteStopRequest, requestStop, requestStopOfHeld } from "./stop-requests.ts"
import { nodeOf, workflowOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import { resumeStopped } from "./waiting.ts"

type Row = Pick<LoadedRow, "id" | "runSeq" | "node" | "kind">

/** Returns the timeout of a group in milliseconds; null without one, and for other rows. */
const timeoutOf = (tx: Tx, row: Row): number | null => (row.kind === "group" ? nodeOf(tx, row).timeoutMs : null)

const START = `
INSERT INTO deadlines (task_id, at) VALUES (?, ?) ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = 0`

/** Starts the timeout of a group that was opened. */
export const startGroupTimeout = (tx: Tx, row: Row): void => {
  const timeoutMs = timeoutOf(tx, row)
  if (timeoutMs !== null) tx.db.run(START, row.id, tx.iso(tx.now + timeoutMs))
}

const DELETE = "DELETE FROM deadlines WHERE task_id = ?"

export const deleteGroupTimeout = (tx: Tx, row: Row): void => {
  if (timeoutOf(tx, row) !== null) tx.db.run(DELETE, row.id)
}

const PASSED = `
WITH RECURSIVE above(id) AS (
  SELECT ? UNION ALL SELECT t.parent_id FROM above a CROSS JOIN tasks t ON t.id = a.id WHERE t.parent_id IS NOT NULL
)
SELECT d.task_id FROM above a CROSS JOIN deadlines d ON d.task_id = a.id WHERE d.passed = 1`

/** Returns the change to apply to a row that may be, or lie in, an overdue group. */
export const amendOverdue = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Change): Change => {
  if (row.parent === null && row.kind !== "group") return change
  if (!isUnderGroupTimeout(workflowOf(tx, row.runSeq), row.node)) return change
  const passed = tx.db.all<[number]>(PASSED, row.id).map(([id]) => id)
  if (passed.length === 0) return change
  const isOverdue = passed.includes(row.id)
  const usesSlots = row.status !== "pending" && !row.isWaiting
  const amended = amendOverdueChange(change, { isOverdue, timeoutMs: timeoutOf(tx, row), usesSlots }, tx.now)
  if (amended.change.kind === "finish") deleteStopRequest(tx, row.id)
  if (amended.leavesOpenRow) effects.markOverdue(passed)
  return amended.change
}

const GROUP = `
SELECT t.run_seq, t.status, r.cancelling IS NOT NULL FROM tasks t JOIN runs r ON r.seq = t.run_seq WHERE t.id = ?`

/** Unfinished rows below a group that have to be cancelled, resumed or stopped. */
const BELOW = `
WITH RECURSIVE below (id, is_container) AS (
  SELECT id, kind <> 'task' FROM tasks INDEXED BY tasks_children WHERE parent_id = ?1 AND finished_at IS NULL
  UNION ALL
  SELECT t.id, t.kind <> 'task'
  FROM below b CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = b.id WHERE b.is_container AND t.finished_at IS NULL
)
SELECT ${CANCELLABLE_COLUMNS}, t.status, t.waiting_on IS NOT NULL FROM below b CROSS JOIN tasks t ON t.id = b.id
WHERE ${IS_AFFECTED_BY_CANCEL} OR t.waiting_on IS NOT NULL AND t.must_end = 0
  OR t.kind = 'task' AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
    AND NOT EXISTS (SELECT 1 FROM stop_requests s WHERE s.task_id = t.id)
LIMIT ?2 + 0`

type Columns = [...CancellableColumns, status: TaskStatus, isWaiting: number]

const MARK_PASSED = "UPDATE deadlines SET passed = 1, at = ? WHERE task_id = ?"
const CLEAR_TIMER = "UPDATE deadlines SET at = NULL WHERE task_id = ?"

/** Finishes or stops rows below overdue groups, up to a bound. Returns whether some are left for the next transaction. */
export const cancelOverdue = (tx: Tx, effects: BatchEffects): boolean => {
  let left = MAX_CANCEL
  for (const id of effects.overdueGroups) {
    const [runSeq, status, cancelling] = tx.db.get<[number, TaskStatus, number]>(GROUP, id)!
    // Everything inside has finished, or the cancel of the run finishes it.
    if (status !== "running" || cancelling === 1) {
      tx.db.run(CLEAR_TIMER, id)
      continue
    }
    for (let found = -1; found !== 0 && left > 0; left -= found) found = cancelBelow(tx, effects, { id, runSeq }, left)
    tx.db.run(MARK_PASSED, left === 0 ? tx.at : null, id)
  }
  return left === 0
}

/** Returns the number of rows that it finished or stopped. Groups that wait for slots are left until their children have finished. */
const cancelBelow = (tx: Tx, effects: BatchEffects, { id, runSeq }: Pick<Row, "id" | "runSeq">, limit: number): number => {
  const rows = tx.db.all<Columns>(BELOW, id, limit)
  for (const row of rows) {
    const [rowStatus, isWaiting] = row.slice(-2) as [TaskStatus, number]
    if (isWaiting === 1) {
      resumeStopped(tx, row[0])
      requestStopOfHeld(tx, row[0])
    } else if (rowStatus === "pending")
      cancelOrStopCreating(tx, effects, runSeq, row.slice(0, -2) as CancellableColumns, (limits) => limits)
    else requestStop(tx, row[0])
  }
  if (rows.length === 0) return 0
  effects.apply()
  tx.wake.noteWorkLeft()
  return rows.length
}
