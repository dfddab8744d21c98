// Ends the pending rows of runs that are being cancelled, a bounded number a transaction. Live rows are left to the engine,
// which stops them; containers with instances are left until those have ended, for the gate to gather.

import type { HolderId } from "../../../core/model/ids.ts"
import { rootNodes } from "../../../core/model/workflow.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { timedOut } from "../../../core/rules/messages.ts"
import type { Advanced, CancelReason, RowKind } from "../../contract/store.ts"
import { emitTask } from "./events.ts"
import { limitIds } from "../claim/limits.ts"
import { ANY_PRIORITY } from "../claim/ready-queue.ts"
import type { Effects } from "./unblock.ts"
import { ROOM } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"
import { resumeCancelled } from "./waiting.ts"

export interface CancellingRun {
  seq: number
  reason: CancelReason
  started: boolean
}

const RUNS = "SELECT seq, cancelling, status = 'running' FROM runs WHERE cancelling IS NOT NULL ORDER BY seq"

export const cancellingRuns = (tx: Tx): CancellingRun[] =>
  tx.db.all<[number, CancelReason, number]>(RUNS).map(([seq, reason, started]) => ({ seq, reason, started: started === 1 }))

const CANCEL_RUN = "UPDATE runs SET cancelling = ?, error = coalesce(?, error) WHERE seq = ? AND cancelling IS NULL"

/** A pause must not keep the gate from gathering what has ended. */
const UNPARK_CONTAINERS = `
UPDATE tasks INDEXED BY tasks_parked SET parked = NULL
WHERE parked = 0 AND ${ANY_PRIORITY} AND run_seq = ? AND status = 'pending' AND attempt_id IS NULL AND kind <> 'task' AND children_created > 0`

export const beginCancel = (tx: Tx, seq: number, reason: CancelReason): void => {
  const { timeoutMs } = tx.versions.get(tx.runs.get(seq).versionId)
  tx.db.run(CANCEL_RUN, reason, reason === "timeout" ? timedOut(timeoutMs) : null, seq)
  tx.db.run(UNPARK_CONTAINERS, seq)
}

/** What is read of a row `t` that may be ended. */
export const DOOMED =
  "t.id, t.node, t.path, t.kind, t.hook, t.parent_id, t.limits, t.parked, t.attempt, t.started_at IS NOT NULL"

/** Of rows `t`: those that wait, but for containers that are to be gathered. */
export const CANCELLABLE = `
t.status = 'pending' AND t.attempt_id IS NULL AND NOT (t.kind <> 'task' AND t.started_at IS NOT NULL AND t.children_pending = 0)`

/** Top-level rows are as few as the workflow has nodes; what is inside of others has an index of what waits. */
const ROWS = `
SELECT ${DOOMED} FROM json_each(?2) AS top CROSS JOIN tasks t INDEXED BY tasks_key ON t.run_seq = ?1 AND t.node = top.value AND t.path = ''
WHERE ${CANCELLABLE}
UNION ALL
SELECT ${DOOMED} FROM tasks t INDEXED BY tasks_pending WHERE t.run_seq = ?1 AND t.parent_id IS NOT NULL AND ${CANCELLABLE}
LIMIT ?3 + 0`

export type Columns = [number, number, string, RowKind, number, number | null, string | null, number | null, number, number]

const CANCEL = `
UPDATE tasks SET status = 'cancelled', parked = NULL, available_at = NULL, finished_at = ?, room = ${ROOM.ended}
WHERE id = ? AND status = 'pending' AND attempt_id IS NULL`

/** The gate died in the middle of an expansion: what was made so far is all that is waited for, unless a retry goes on with it. */
const CUT = `
UPDATE tasks SET children_pending = children_pending - (children_total - children_created),
  status = iif(children_pending = children_total - children_created, 'pending', 'running'), parked = NULL
WHERE id = ?`

/** Returns whether rows are left for the next transaction. */
export const cancelPending = (tx: Tx, effects: Effects, runs: readonly CancellingRun[]): boolean => {
  let left = MAX_CANCEL
  for (const run of runs) {
    if (!run.started) continue
    if (left === 0) return true
    left -= resumeCancelled(tx, run.seq, left)
    if (left === 0) return true
    const top = rootNodes(tx.versions.get(tx.runs.get(run.seq).versionId))
    const rows = tx.db.all<Columns>(ROWS, run.seq, JSON.stringify(top), left)
    left -= rows.length
    for (const row of rows) cancelRow(tx, effects, run.seq, row, (limits) => tx.limits.shared(limits))
  }
  return left === 0
}

/** `useful`: those of its limits whose room somebody else can use now. */
export const cancelRow = (
  tx: Tx,
  effects: Effects,
  runSeq: number,
  [id, node, path, kind, hook, parent, limits, parked, attempt, started]: Columns,
  useful: (limits: readonly number[]) => readonly number[],
): void => {
  if (kind !== "task" && started === 1) {
    tx.db.run(CUT, id)
    return
  }
  tx.db.run(CANCEL, tx.at, id)
  const row = { id, runSeq, node, path, kind, hook: hook === 1, parent, limits: limitIds(limits) }
  if (parked === null) effects.passedOn(useful(row.limits))
  effects.ended(row, "cancelled", null, false)
  emitTask(tx, row, { status: "cancelled", at: tx.at, attempt })
}

const HOLDS = `
SELECT 1 FROM tasks INDEXED BY tasks_in_flight JOIN holders h ON h.seq = tasks.holder
WHERE run_seq = ? AND holder IS NOT NULL AND status IN ('dispatched', 'running') AND h.id = ? LIMIT 1`

/** Which of these runs this holder has live attempts of. Those that were closed have hooks at most. */
export const cancellingRunsOf = (
  tx: Tx,
  holder: HolderId,
  runs: readonly CancellingRun[],
  closed: Advanced["closed"],
): Advanced["cancelling"] =>
  runs
    .filter(({ seq }) => !closed.some(({ runSeq }) => runSeq === seq) && tx.db.get(HOLDS, seq, holder) !== undefined)
    .map(({ seq, reason }) => ({ runSeq: seq, reason }))
