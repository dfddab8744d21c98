// Creates runs. Each is inserted pending and started in the same transaction, unless `max_active_runs` of its workflow or an
// earlier run of its schedule holds it back.

import type { RunId } from "../../../core/model/ids.ts"
import { mustWaitToStart } from "../../../core/rules/runs/start.ts"
import { runPriority } from "../../../core/rules/runs/new-rows.ts"
import type { NewRun, RunRow } from "../../contract/store.ts"
import { startPendingRuns, startRun } from "../advance/close-runs.ts"
import { emitRun } from "../advance/events.ts"
import { noteCall } from "../functions/functions.ts"
import { readNewRun, readRun } from "./run-reads.ts"
import type { Tx } from "../tx.ts"

const INSERT = `
INSERT INTO runs (id, workflow_id, version_id, status, "trigger", params, priority, logical_date, idempotency_key, private,
  working_dir, created_at, schedule_id, queue_behind, timezone, parent_row, parent_run, parent_task, root_run_id, depth, created_by,
  number, cause, previous_run)
VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
RETURNING seq`

const LAST_NUMBER = "SELECT last FROM run_numbers WHERE workflow_id = ?"

const SET_LAST_NUMBER = `
INSERT INTO run_numbers (workflow_id, last) VALUES (?, ?) ON CONFLICT (workflow_id) DO UPDATE SET last = excluded.last`

const BY_ID = "SELECT seq, id FROM runs WHERE id = ?"

const BY_KEY = "SELECT seq, id FROM runs WHERE workflow_id = ? AND idempotency_key = ?"

export const createRuns = (tx: Tx, runs: readonly NewRun[]): { run: RunRow; created: boolean }[] => {
  /** Ids of the runs so far, and of existing ones in their place, by the given ids. */
  const ids = new Map<RunId, RunId>()
  const found = runs.map((run) => {
    const { previousRun = null } = run
    const row = insertRun(tx, run, previousRun === null ? null : (ids.get(previousRun) ?? previousRun))
    ids.set(run.id, row.id)
    return row
  })
  const waiting = new Set<number>()
  for (const [i, { seq, inserted }] of found.entries()) {
    const { versionId, workflowId } = runs[i]!
    if (!inserted) continue
    if (!mustWaitToStart(tx.workflows.get(versionId), runs[i]!)) startRun(tx, seq)
    else waiting.add(workflowId)
  }
  for (const workflowId of waiting) startPendingRuns(tx, workflowId)
  tx.wake.noteRowsCreated()
  return found.map(({ seq, inserted }, i) => {
    const run = inserted ? readNewRun(tx, seq) : readRun(tx, seq)!
    if (inserted && run.status === "pending") emitRun(tx, run.id, "pending", null)
    // A run with the caller's id is the caller's, also when an earlier call has inserted it, whose reply was lost.
    return { run, created: run.id === runs[i]!.id }
  })
}

const insertRun = (tx: Tx, run: NewRun, previousRun: RunId | null): { seq: number; id: RunId; inserted: boolean } => {
  const { id, workflowId, versionId, trigger, params, logicalDate, idempotencyKey } = run
  const number = (tx.db.get<[number]>(LAST_NUMBER, workflowId)?.[0] ?? 0) + 1
  const row = tx.db.get<[number]>(
    INSERT,
    id,
    workflowId,
    versionId,
    trigger,
    JSON.stringify(params),
    runPriority(tx.workflows.get(versionId), run.priority),
    logicalDate,
    idempotencyKey,
    run.private ? 1 : 0,
    run.workingDir,
    tx.at,
    run.scheduleId ?? null,
    run.waitForSchedule === true ? 1 : 0,
    run.timezone ?? null,
    run.parent?.row ?? null,
    run.parent?.runId ?? null,
    run.parent?.task ?? null,
    run.parent?.rootRunId ?? null,
    run.parent?.depth ?? 0,
    run.createdBy ?? null,
    number,
    run.cause === undefined ? null : JSON.stringify(run.cause),
    previousRun,
  )
  if (row !== undefined) {
    tx.db.run(SET_LAST_NUMBER, workflowId, number)
    if (run.parent?.step !== undefined) noteCall(tx, run.parent.row, run.parent.step)
    return { seq: row[0], id, inserted: true }
  }
  const [seq, existing] =
    tx.db.get<[number, RunId]>(BY_ID, id) ?? tx.db.get<[number, RunId]>(BY_KEY, workflowId, idempotencyKey)!
  return { seq, id: existing, inserted: false }
}
