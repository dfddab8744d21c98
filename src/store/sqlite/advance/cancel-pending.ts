// Cancels the pending rows of runs that are being cancelled, a bounded number per transaction. The engine stops attempts in
// flight. Containers with children stay until the children have finished, for the gate to gather.

import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import { rootNodes } from "../../../core/model/workflow.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { IS_AFFECTED_BY_CANCEL } from "../../shared/cancellable.ts"
import { cancelEffect } from "../../../core/rules/changes/cancel-effect.ts"
import { timedOut } from "../../../core/rules/messages.ts"
import type { AdvanceResult, CancelReason, RowKind } from "../../contract/store.ts"
import { emitTask } from "./events.ts"
import { limitIds } from "../connection/limit-column.ts"
import { addTaskNotifications } from "./notify-task.ts"
import type { BatchEffects } from "./batch-effects.ts"
import { workflowOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import { resumeCancelled } from "./waiting.ts"

export interface CancellingRun {
  seq: number
  reason: CancelReason
  /** Its rows may have been claimed: a pending run that is cancelled has only to close. */
  isRunning: boolean
}

const RUNS = "SELECT seq, cancelling, status = 'running' FROM runs WHERE cancelling IS NOT NULL ORDER BY seq"

export const cancellingRuns = (tx: Tx): CancellingRun[] =>
  tx.db
    .all<[number, CancelReason, number]>(RUNS)
    .map(([seq, reason, isRunning]) => ({ seq, reason, isRunning: isRunning === 1 }))

const CANCEL_RUN = "UPDATE runs SET cancelling = ?, error = coalesce(?, error) WHERE seq = ? AND cancelling IS NULL"

/** A paused run must not keep the gate from gathering finished children. */
const UNPARK_CONTAINERS = `
UPDATE tasks INDEXED BY tasks_paused SET parked = NULL
WHERE parked = ${PARKED_BY_PAUSE} AND run_seq = ? AND status = 'pending' AND attempt_id IS NULL AND kind <> 'task' AND children_created > 0`

export const beginCancel = (tx: Tx, seq: number, reason: CancelReason): void => {
  const { timeoutMs } = workflowOf(tx, seq)
  tx.db.run(CANCEL_RUN, reason, reason === "timeout" ? timedOut(timeoutMs) : null, seq)
  tx.db.run(UNPARK_CONTAINERS, seq)
}

/** Columns of a row `t` for `cancelOrStopCreating`, in the order of `CancellableColumns`. */
export const CANCELLABLE_COLUMNS =
  "t.id, t.node, t.path, t.kind, t.hook, t.parent_id, t.limits, t.parked, t.attempt, t.started_at IS NOT NULL, t.children_created, t.children_total, t.children_pending"

export type CancellableColumns = [
  id: number,
  node: number,
  path: string,
  kind: RowKind,
  hook: number,
  parent: number | null,
  limits: string | null,
  parked: number | null,
  attempt: number,
  isOpened: number,
  childrenCreated: number,
  childrenTotal: number | null,
  childrenPending: number | null,
]

/** Top-level rows are found by their nodes; rows inside containers have an index of pending ones. */
const ROWS = `
SELECT ${CANCELLABLE_COLUMNS} FROM json_each(?2) AS top CROSS JOIN tasks t INDEXED BY tasks_key ON t.run_seq = ?1 AND t.node = top.value AND t.path = ''
WHERE ${IS_AFFECTED_BY_CANCEL}
UNION ALL
SELECT ${CANCELLABLE_COLUMNS} FROM tasks t INDEXED BY tasks_pending WHERE t.run_seq = ?1 AND t.parent_id IS NOT NULL AND ${IS_AFFECTED_BY_CANCEL}
LIMIT ?3 + 0`

/** Cancels pending rows and resumes waiting ones, up to a bound. Returns whether rows are left for the next transaction. */
export const cancelPending = (tx: Tx, effects: BatchEffects, runs: readonly CancellingRun[]): boolean => {
  let left = MAX_CANCEL
  for (const run of runs) {
    if (!run.isRunning) continue
    if (left === 0) return true
    left -= resumeCancelled(tx, run.seq, left)
    if (left === 0) return true
    const top = JSON.stringify(rootNodes(workflowOf(tx, run.seq)))
    for (let found = -1; found !== 0 && left > 0; left -= found) {
      const rows = tx.db.all<CancellableColumns>(ROWS, run.seq, top, left)
      for (const row of rows) cancelOrStopCreating(tx, effects, run.seq, row, (limits) => tx.limits.shared(limits))
      effects.apply()
      found = rows.length
    }
  }
  return left === 0
}

const CANCEL = `
UPDATE tasks SET status = 'cancelled', parked = NULL, available_at = NULL, finished_at = ?
WHERE id = ? AND status = 'pending' AND attempt_id IS NULL`

/** Makes a container whose expansion was interrupted wait for the created children only. A retry creates the rest. */
const STOP_CREATING_CHILDREN = `
UPDATE tasks SET children_pending = children_pending - (children_total - children_created),
  status = iif(children_pending = children_total - children_created, 'pending', 'running'), parked = NULL
WHERE id = ?`

/**
 * Cancels a pending row, or lets a half created container wait for the children that exist. `usable`: selects those of its limits whose
 * slots other rows can use now.
 */
export const cancelOrStopCreating = (
  tx: Tx,
  effects: BatchEffects,
  runSeq: number,
  columns: CancellableColumns,
  usable: (limits: readonly number[]) => readonly number[],
): void => {
  const [
    id,
    node,
    path,
    kind,
    hook,
    parent,
    limits,
    parked,
    attempt,
    isOpened,
    childrenCreated,
    childrenTotal,
    childrenPending,
  ] = columns
  const effect = cancelEffect({ kind, isOpened: isOpened === 1, childrenCreated, childrenTotal, childrenPending })
  if (effect === "stop_creating") {
    tx.db.run(STOP_CREATING_CHILDREN, id)
    return
  }
  tx.db.run(CANCEL, tx.at, id)
  const row = { id, runSeq, node, path, kind, hook: hook === 1, parent, limits: limitIds(limits) }
  if (parked === null) effects.unparkInPlaceOf(usable(row.limits))
  effects.cancel(row)
  addTaskNotifications(tx, row, "cancelled")
  emitTask(tx, row, { status: "cancelled", at: tx.at, attempt })
}

const HAS_IN_FLIGHT = `
SELECT 1 FROM tasks INDEXED BY tasks_in_flight JOIN holders h ON h.seq = tasks.holder
WHERE run_seq = ? AND holder IS NOT NULL AND status IN ('dispatched', 'running') AND h.id = ? LIMIT 1`

/** Returns the runs of which this holder has attempts in flight. Closed runs are left out: only their hooks can be in flight. */
export const cancellingRunsOf = (
  tx: Tx,
  holder: HolderId,
  runs: readonly CancellingRun[],
  closed: AdvanceResult["closed"],
): AdvanceResult["cancelling"] =>
  runs
    .filter(({ seq }) => !closed.some(({ runSeq }) => runSeq === seq) && tx.db.get(HAS_IN_FLIGHT, seq, holder) !== undefined)
    .map(({ seq, reason }) => ({ runSeq: seq, reason }))
