// Closes runs in which nothing is open: sets the status, adds the hooks, and starts pending runs that waited for the place.

import { planStart, runsToStart } from "../../../core/rules/runs/start.ts"
import { closeStatus, nodesAllowedToFail } from "../../../core/rules/changes/effects.ts"
import { endNotifications } from "../../../core/rules/runs/notifications.ts"
import { hookRows } from "../../../core/rules/runs/new-rows.ts"
import { taskFailed } from "../../../core/rules/messages.ts"
import type { RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { MAX_STARTS } from "../../shared/bounds.ts"
import type { AdvanceResult, CancelReason } from "../../contract/store.ts"
import type { CancellingRun } from "./cancel-pending.ts"
import { emitRun } from "./events.ts"
import { addNotifications } from "../admin/notifications.ts"
import { insertRows } from "../runs/insert-rows.ts"
import { reopenRun } from "../runs/reopen.ts"
import { workflowOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import { recordTriggerSuccess } from "./record-trigger-successes.ts"
import { requestResume } from "./request-resume.ts"

const CLOSABLE = "SELECT seq FROM runs INDEXED BY runs_closable WHERE status = 'running' AND open_tasks = 0 ORDER BY seq"

/** Closes finished runs, and cancelled runs that were never started. */
export const closeRuns = (tx: Tx, cancelling: readonly CancellingRun[]): AdvanceResult["closed"] => {
  const done = tx.db.all<[number]>(CLOSABLE).map(([seq]) => seq)
  const neverStarted = cancelling.flatMap(({ seq, isRunning }) => (isRunning ? [] : [seq]))
  if (done.length + neverStarted.length === 0) return []
  const closed = [...done, ...neverStarted].map((seq) => closeRun(tx, seq))
  for (const workflowId of new Set(closed.map(({ runSeq }) => tx.runs.get(runSeq).workflowId))) startPendingRuns(tx, workflowId)
  return closed
}

const READ = "SELECT cancelling, failed, error, parent_row FROM runs WHERE seq = ?"

const FIRST_FAILED = `
SELECT node FROM tasks INDEXED BY tasks_of_run
WHERE run_seq = ? AND status = 'failed' AND parent_id IS NULL AND hook = 0 AND node NOT IN (SELECT value FROM json_each(?))
ORDER BY finished_at, id LIMIT 1`

const CLOSE = `
UPDATE runs SET status = ?, finished_at = ?, error = ?, hooks_pending = ?, cancelling = NULL, paused = 0, timeout_at = NULL, retry_plan = NULL
WHERE seq = ?`

const closeRun = (tx: Tx, seq: number): AdvanceResult["closed"][number] => {
  const run = tx.runs.get(seq)
  const workflow = tx.workflows.get(run.versionId)
  const [cancelling, failed, runError, parent] = tx.db.get<[CancelReason | null, number, string | null, number | null]>(
    READ,
    seq,
  )!
  const status = closeStatus({ cancelling, failed })
  const hooks = hookRows(workflow, run, status)
  let error = runError
  if (error === null && status === "failed") {
    const first = tx.db.get<[number]>(FIRST_FAILED, seq, JSON.stringify(nodesAllowedToFail(workflow)))
    if (first !== undefined) error = taskFailed(workflow.nodes[first[0]]!.name)
  }
  tx.db.run(CLOSE, status, tx.at, error, hooks.length, seq)
  insertRows(tx, run, hooks, true)
  if (parent !== null) requestResume(tx, parent)
  addNotifications(tx, run.id, endNotifications(workflow, run, status))
  if (status === "success" && !run.private) recordTriggerSuccess(tx, seq)
  emitRun(tx, run.id, status, error)
  return { runSeq: seq, runId: run.id, status }
}

/** Pending runs, oldest first, except those that wait for an earlier run of their schedule, or for its success. */
const OLDEST_PENDING = `
SELECT seq, retry_plan FROM runs pending INDEXED BY runs_active
WHERE workflow_id = ? AND status = 'pending' AND finished_at IS NULL AND cancelling IS NULL
  AND (queue_behind = 0 OR NOT EXISTS (
    SELECT 1 FROM runs earlier INDEXED BY runs_of_schedule
    WHERE earlier.schedule_id = pending.schedule_id AND earlier.finished_at IS NULL AND earlier.seq < pending.seq))
  AND (previous_run IS NULL OR retry_plan IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM runs previous WHERE previous.id = pending.previous_run AND previous.status <> 'success'))
ORDER BY seq LIMIT ${MAX_STARTS}`

const COUNT_RUNNING = `
SELECT count(*) FROM runs INDEXED BY runs_active WHERE workflow_id = ? AND status = 'running' AND finished_at IS NULL`

/** Starts the oldest pending runs of a workflow while `max_active_runs` and their schedules allow it. */
export const startPendingRuns = (tx: Tx, workflowId: number): void => {
  for (let isFull = false; !isFull;) {
    const pending = tx.db.all<[number, string | null]>(OLDEST_PENDING, workflowId).map(([seq, plan]) => {
      const { maxActiveRuns } = workflowOf(tx, seq)
      return { seq, workflowId, maxActiveRuns, plan }
    })
    if (pending.length === 0) return
    const [running] = tx.db.get<[number]>(COUNT_RUNNING, workflowId)!
    const starting = runsToStart(pending, new Map([[workflowId, running]]))
    for (const { seq, plan } of starting) {
      if (plan === null) startRun(tx, seq)
      else reopenRun(tx, seq, JSON.parse(plan) as RetryReset["rows"])
    }
    if (starting.length > 0) tx.wake.noteWorkLeft()
    isFull = starting.length < MAX_STARTS
  }
}

const START = `
UPDATE runs SET status = 'running', started_at = ?, timeout_at = ?, open_tasks = ?, tasks_total = ? WHERE seq = ?`

/** Starts a pending run: inserts its rows and timers. */
export const startRun = (tx: Tx, seq: number): void => {
  const run = tx.runs.get(seq)
  const { rows, tasks, timeoutMs, notifications } = planStart(tx.workflows.get(run.versionId), run)
  const timeoutAt = timeoutMs === null ? null : tx.iso(tx.now + timeoutMs)
  tx.db.run(START, tx.at, timeoutAt, rows.length, tasks, seq)
  insertRows(tx, run, rows, false)
  addNotifications(tx, run.id, notifications)
  // The timers of other processes have to know them.
  if (timeoutAt !== null || notifications.length > 0) tx.wake.noteWorkLeft()
  emitRun(tx, run.id, "running", null)
}
