// Groups with a timeout. While one is open it has a deadline; when that has passed, what waits below the group is cancelled, what
// runs there is stopped, and its gather ends it as timed out. What comes up below it later (a verdict of a gate, an attempt that
// would be tried again) is ended in the same transaction: so a passed deadline needs no second look by the clock.

import { amendOverdueChange } from "../../../core/rules/amend-change.ts"
import type { Change } from "../../../core/model/change.ts"
import { hasGroupTimeout } from "../../../core/model/task-path.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { CANCELLABLE, cancelRow, type Columns as Doomed, DOOMED } from "./cancel-pending.ts"
import type { Effects } from "./unblock.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import { deleteStopRequest, requestStop } from "./stop-requests.ts"
import type { Tx } from "../connection/tx.ts"
import { resumeStopped } from "./waiting.ts"

type Row = Pick<LoadedRow, "id" | "runSeq" | "node" | "kind">

/** null: it has none, or is no group. */
const timeoutOf = (tx: Tx, { runSeq, node, kind }: Row): number | null =>
  kind === "group" ? tx.versions.get(tx.runs.get(runSeq).versionId).nodes[node]!.timeoutMs : null

const SET = `
INSERT INTO deadlines (task_id, at) VALUES (?, ?) ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = 0`

/** The group is open from now on. */
export const startDeadline = (tx: Tx, row: Row): void => {
  const timeoutMs = timeoutOf(tx, row)
  if (timeoutMs !== null) tx.db.run(SET, row.id, tx.iso(tx.now + timeoutMs))
}

const DROP = "DELETE FROM deadlines WHERE task_id = ?"

export const deleteDeadline = (tx: Tx, row: Row): void => {
  if (timeoutOf(tx, row) !== null) tx.db.run(DROP, row.id)
}

const PASSED = `
WITH RECURSIVE above(id) AS (
  SELECT ? UNION ALL SELECT t.parent_id FROM above a CROSS JOIN tasks t ON t.id = a.id WHERE t.parent_id IS NOT NULL
)
SELECT d.task_id FROM above a CROSS JOIN deadlines d ON d.task_id = a.id WHERE d.passed = 1`

/** What becomes of a change about a row that is, or lies in, a group whose time is over. */
export const amendOverdue = (tx: Tx, effects: Effects, row: LoadedRow, change: Change): Change => {
  if (row.parent === null && row.kind !== "group") return change
  if (!hasGroupTimeout(tx.versions.get(tx.runs.get(row.runSeq).versionId), row.node)) return change
  const passed = tx.db.all<[number]>(PASSED, row.id).map(([id]) => id)
  if (passed.length === 0) return change
  const isOverdue = passed.includes(row.id)
  const holdsSlots = row.status !== "pending" && !row.isWaiting
  const amended = amendOverdueChange(change, { isOverdue, timeoutMs: timeoutOf(tx, row), holdsSlots }, tx.now)
  if (amended.change.kind === "finish") deleteStopRequest(tx, row.id)
  if (amended.leavesOpenRow) effects.expire(passed)
  return amended.change
}

const GROUP = `
SELECT t.run_seq, t.status, r.cancelling IS NOT NULL FROM tasks t JOIN runs r ON r.seq = t.run_seq WHERE t.id = ?`

/** What has not ended below a group, down to what was not opened yet. */
const BELOW = `
WITH RECURSIVE below (id, is_open) AS (
  SELECT id, kind <> 'task' AND started_at IS NOT NULL FROM tasks INDEXED BY tasks_children WHERE parent_id = ?1 AND finished_at IS NULL
  UNION ALL
  SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL
  FROM below b CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = b.id WHERE b.is_open AND t.finished_at IS NULL
)
SELECT ${DOOMED}, t.status, t.waiting_on IS NOT NULL FROM below b CROSS JOIN tasks t ON t.id = b.id
WHERE ${CANCELLABLE} OR t.waiting_on IS NOT NULL AND t.cancel_requested = 0
  OR t.kind = 'task' AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
    AND NOT EXISTS (SELECT 1 FROM stop_requests s WHERE s.task_id = t.id)
LIMIT ?2 + 0`

type Columns = [...Doomed, status: TaskStatus, waits: number]

const PASS = "UPDATE deadlines SET passed = 1, at = ? WHERE task_id = ?"
const REST = "UPDATE deadlines SET at = NULL WHERE task_id = ?"

/** Ends what is below groups that are overdue, a bounded number of rows. Returns whether some are left for the next transaction. */
export const cancelOverdue = (tx: Tx, effects: Effects): boolean => {
  let left = MAX_CANCEL
  for (const id of effects.overdue) {
    const [runSeq, status, cancelling] = tx.db.get<[number, TaskStatus, number]>(GROUP, id)!
    // All in it has ended, or will by the cancel of its run.
    if (status !== "running" || cancelling === 1) {
      tx.db.run(REST, id)
      continue
    }
    const rows = left === 0 ? [] : tx.db.all<Columns>(BELOW, id, left)
    left -= rows.length
    for (const row of rows) {
      const [is, waits] = row.slice(-2) as [TaskStatus, number]
      if (waits === 1) resumeStopped(tx, row[0])
      else if (is === "pending") cancelRow(tx, effects, runSeq, row.slice(0, -2) as Doomed, (limits) => limits)
      else requestStop(tx, row[0])
    }
    tx.db.run(PASS, left === 0 ? tx.at : null, id)
    if (rows.length > 0) tx.wakeOthers = true
  }
  return left === 0
}
