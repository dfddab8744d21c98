// Sets the outcome of a task by hand, by the rules of core/rules/runs/overrides.ts.

import { countedOutcome, edgesOf } from "../../../core/rules/changes/effects.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { type RunStatus, type SkipReason, type FinalStatus, type UpstreamOutcome } from "../../../core/model/status.ts"
import { nodeIndexOf } from "../../../core/model/workflow.ts"
import {
  countOverride,
  countUpstreamEnd,
  overrideError,
  overrideTarget,
  recomputeRunStatus,
} from "../../../core/rules/runs/overrides.ts"
import type { StatsStore } from "../../contract/stats.ts"
import { emitRun, emitTask } from "../advance/events.ts"
import { startPendingRuns } from "../advance/close-runs.ts"
import { BatchEffects } from "../advance/batch-effects.ts"
import { type LoadedRow, loadRows } from "../cache/load-rows.ts"
import { nodeOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"

type Override = Parameters<StatsStore["overrideOutcome"]>[0]

const FIND = `
SELECT t.id FROM runs r JOIN tasks t ON t.run_seq = r.seq AND t.node = ?2 AND t.path = ?3 WHERE r.id = ?1 AND r.removing = 0`

const VERSION = "SELECT version_id FROM runs WHERE id = ?"

const RETRY_WAITS = "SELECT 1 FROM runs WHERE id = ? AND retry_plan IS NOT NULL"

export const overrideOutcome = (tx: Tx, override: Override): Awaited<ReturnType<StatsStore["overrideOutcome"]>> => {
  const row = findRow(tx, override)
  if (row === null) return "not_found"
  if (tx.db.get(RETRY_WAITS, override.runId) !== undefined) return "retry_waits"
  const effects = new BatchEffects(tx)
  const target = overrideTarget(row)
  switch (target) {
    case "in_flight":
      return "in_flight"
    case "finished":
      overrideFinished(tx, effects, row, override)
      break
    case "waiting":
      finishWaiting(tx, effects, row, override)
      break
    case "pending":
      finishPending(tx, effects, row, override)
      break
    default:
      return target satisfies never
  }
  const { status } = override
  emitTask(tx, row, { status, at: tx.at, attempt: row.attempt, error: overrideError(override) ?? undefined })
  effects.apply()
  effects.unpark()
  recomputeStatus(tx, row.runSeq, override.name)
  tx.wake.noteWorkLeft()
  return "done"
}

const findRow = (tx: Tx, { runId, name, path }: Override): LoadedRow | null => {
  const version = tx.db.get<[number]>(VERSION, runId)
  if (version === undefined) return null
  const node = nodeIndexOf(tx.workflows.get(version[0]), name)
  const found = tx.db.get<[number]>(FIND, runId, node, path)
  return found === undefined ? null : loadRows(tx.db, [found[0]]).get(found[0])!
}

const IS_READY = "SELECT parked IS NULL AND upstream_pending = 0 FROM tasks WHERE id = ?"

const FINISH_PENDING = `
UPDATE tasks SET status = ?, error = ?, finished_at = ?, parked = NULL, available_at = NULL WHERE id = ? AND status = 'pending'`

const finishPending = (tx: Tx, effects: BatchEffects, row: LoadedRow, override: Override): void => {
  const [isReady] = tx.db.get<[number]>(IS_READY, row.id)!
  tx.db.run(FINISH_PENDING, override.status, overrideError(override), tx.at, row.id)
  if (isReady === 1) effects.unparkInPlaceOf(row.limits)
  effects.finish(row, override.status, null)
}

const FINISH_WAITING = `
UPDATE tasks SET status = ?1, last_attempt_state = ?1, error = ?2, finished_at = ?3, holder = NULL, waiting_on = NULL, resume_at = NULL,
  must_end = 0, parked = NULL
WHERE id = ?4 AND waiting_on IS NOT NULL`

/** Finishes a waiting row. If a holder has resumed it, that holder loses its fence. */
const finishWaiting = (tx: Tx, effects: BatchEffects, row: LoadedRow, override: Override): void => {
  tx.db.run(FINISH_WAITING, override.status, overrideError(override), tx.at, row.id)
  effects.finish(row, override.status, null)
}

const SKIP_REASON = "SELECT skip_reason FROM tasks WHERE id = ?"

const SET_STATUS = "UPDATE tasks SET status = ?, skip_reason = NULL, error = ? WHERE id = ?"

const COUNT_FAILED = "UPDATE tasks SET children_failed = children_failed + ? WHERE id = ?"

const overrideFinished = (tx: Tx, effects: BatchEffects, row: LoadedRow, override: Override): void => {
  const before = row.status as FinalStatus
  const [skipReason] = tx.db.get<[SkipReason | null]>(SKIP_REASON, row.id)!
  tx.db.run(SET_STATUS, override.status, overrideError(override), row.id)
  const { kind, hook, parent } = row
  const node = nodeOf(tx, row)
  const counts = countOverride(node, { kind, hook, isChild: parent !== null }, before, override.status)
  const run = effects.runDelta(row.runSeq)
  run.failedTopLevel += counts.runFailed
  run.success += counts.tasks.success
  run.failedTasks += counts.tasks.failed
  run.skipped += counts.tasks.skipped
  run.cancelled += counts.tasks.cancelled
  if (parent !== null) tx.db.run(COUNT_FAILED, counts.parentFailed, parent)
  recountDownstream(tx, row, countedOutcome(node, kind, before, skipReason), countedOutcome(node, kind, override.status, null))
}

const RECOUNT = `
UPDATE tasks SET upstream_failed = upstream_failed + ?, upstream_unmet = upstream_unmet + ?,
  upstream_waived = upstream_waived + ?, lane = coalesce(?, lane)
WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending' AND attempt_id IS NULL`

/** Counts the new end in downstream rows that are still pending. */
const recountDownstream = (tx: Tx, row: LoadedRow, before: UpstreamOutcome, after: UpstreamOutcome): void => {
  const run = tx.runs.get(row.runSeq)
  const { failed, unmet, waived } = countUpstreamEnd(before, after)
  for (const { node, path, reroute } of edgesOf(tx.workflows.get(run.versionId), run, row, after))
    tx.db.run(RECOUNT, failed, unmet, waived, reroute, row.runSeq, node, path)
}

const RUN = `
SELECT id, status, failed, EXISTS (
  SELECT 1 FROM tasks t INDEXED BY tasks_of_run
  WHERE t.run_seq = r.seq AND t.status = 'cancelled' AND t.parent_id IS NULL AND t.hook = 0)
FROM runs r WHERE seq = ?`

const SET_RUN_STATUS = "UPDATE runs SET status = ?, error = ? WHERE seq = ?"

/** Recomputes the status of a finished run. Its hooks do not run again. A run that waits for its success may start. */
const recomputeStatus = (tx: Tx, seq: number, taskName: string): void => {
  const [id, status, failed, cancelled] = tx.db.get<[RunId, RunStatus, number, number]>(RUN, seq)!
  const next = recomputeRunStatus({ status, failed, hasCancelled: cancelled === 1 }, taskName)
  if (next === null) return
  tx.db.run(SET_RUN_STATUS, next.status, next.error, seq)
  emitRun(tx, id, next.status, next.error)
  startPendingRuns(tx, tx.runs.get(seq).workflowId)
}
