// Retries a finished run: it is pending with the plan of its retry, and starts at once unless `max_active_runs` holds it back.

import type { RunId } from "../../../core/model/ids.ts"
import { mustWaitToStart } from "../../../core/rules/runs/start.ts"
import type { RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { startPendingRuns, startRun } from "../advance/close-runs.ts"
import { emitRun } from "../advance/events.ts"
import type { Tx } from "../tx.ts"
import { reopenRun } from "./reopen.ts"

const FINISHED = `
SELECT seq FROM runs WHERE id = ?1 AND finished_at IS NOT NULL AND hooks_pending = 0 AND removing = 0 AND finished_at = coalesce(?2, finished_at)`

const HAS_ROWS = "SELECT 1 FROM tasks INDEXED BY tasks_of_run WHERE run_seq = ? AND hook = 0 LIMIT 1"

const QUEUE = `
UPDATE runs SET status = 'pending', cancelling = NULL, paused = 0, finished_at = NULL, error = NULL, open_tasks = 0, timeout_at = NULL,
  retry_plan = ?1, idle_ms = idle_ms + iif(started_at IS NULL, 0, max(0, CAST(round((julianday(?2) - julianday(finished_at)) * 86400000) AS INTEGER)))
WHERE seq = ?3`

const STATUS = "SELECT status FROM runs WHERE seq = ?"

/** Returns false when the run is not finished, or not as the plan found it. */
export const retryRun = (tx: Tx, runId: RunId, plan: RetryReset): boolean => {
  const run = tx.db.get<[number]>(FINISHED, runId, plan.endedAt ?? null)
  if (run === undefined) return false
  const [seq] = run
  deleteHooks(tx, seq)
  // A run that was cancelled before it started has no rows to reset.
  const hasRows = tx.db.get(HAS_ROWS, seq) !== undefined
  tx.db.run(QUEUE, hasRows ? JSON.stringify(plan.rows) : null, tx.at, seq)
  tx.wake.noteWorkLeft()
  const { workflowId, versionId } = tx.runs.get(seq)
  if (mustWaitToStart(tx.workflows.get(versionId), {})) {
    startPendingRuns(tx, workflowId)
    if (tx.db.get<[string]>(STATUS, seq)![0] === "pending") emitRun(tx, runId, "pending", null)
  } else if (hasRows) reopenRun(tx, seq, plan.rows)
  else startRun(tx, seq)
  return true
}

const HOOKS = "run_seq = ? AND hook = 1"

const DELETE_HOOK_ATTEMPTS = `DELETE FROM attempts WHERE task_id IN (SELECT id FROM tasks WHERE ${HOOKS})`

const DELETE_HOOKS = `DELETE FROM tasks WHERE ${HOOKS}`

const deleteHooks = (tx: Tx, seq: number): void => {
  tx.db.run(DELETE_HOOK_ATTEMPTS, seq)
  tx.db.run(DELETE_HOOKS, seq)
}
