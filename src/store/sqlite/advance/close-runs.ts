// The end of a run: its status, its hooks in the same transaction, and the start of runs that waited for its place.

import { closeStatus } from "../../../core/rules/effects.ts"
import { deadlineNotifications, endNotifications } from "../../../core/rules/notifications.ts"
import { initialRows, hookRows } from "../../../core/rules/new-rows.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import { taskFailed } from "../../../core/rules/messages.ts"
import type { Advanced, CancelReason } from "../../contract/store.ts"
import type { CancellingRun } from "./cancel-pending.ts"
import { emitRun } from "./events.ts"
import { addNotices } from "../admin/notifications.ts"
import { insertRows } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"
import { resumeParent } from "./waiting.ts"

const DONE = "SELECT seq FROM runs INDEXED BY runs_done WHERE status = 'running' AND open_tasks = 0 ORDER BY seq"

const READ = "SELECT cancelling, failed, error, parent_row FROM runs WHERE seq = ?"

const FIRST_FAILED = `
SELECT node FROM tasks INDEXED BY tasks_of_run
WHERE run_seq = ? AND status = 'failed' AND parent_id IS NULL AND hook = 0 ORDER BY finished_at, id LIMIT 1`

const CLOSE = `
UPDATE runs SET status = ?, finished_at = ?, error = ?, hooks_pending = ?, cancelling = NULL, paused = 0, timeout_at = NULL WHERE seq = ?`

export const closeRuns = (tx: Tx, cancelling: readonly CancellingRun[]): Advanced["closed"] => {
  const done = tx.db.all<[number]>(DONE).map(([seq]) => seq)
  const never = cancelling.flatMap(({ seq, started }) => (started ? [] : [seq]))
  if (done.length + never.length === 0) return []
  const closed = [...done, ...never].map((seq) => close(tx, seq))
  for (const workflowId of new Set(closed.map(({ runSeq }) => tx.runs.get(runSeq).workflowId))) activate(tx, workflowId)
  return closed
}

const close = (tx: Tx, seq: number): Advanced["closed"][number] => {
  const fact = tx.runs.get(seq)
  const compiled = tx.versions.get(fact.versionId)
  const [cancelling, failed, known, parent] = tx.db.get<[CancelReason | null, number, string | null, number | null]>(READ, seq)!
  const status = closeStatus({ cancelling, failed })
  const hooks = hookRows(compiled, fact, status)
  let error = known
  if (error === null && status === "failed") {
    const first = tx.db.get<[number]>(FIRST_FAILED, seq)
    if (first !== undefined) error = taskFailed(compiled.nodes[first[0]]!.name)
  }
  tx.db.run(CLOSE, status, tx.at, error, hooks.length, seq)
  insertRows(tx, fact, hooks, true)
  if (parent !== null) resumeParent(tx, parent)
  addNotices(tx, fact.id, endNotifications(compiled, fact, status))
  emitRun(tx, fact.id, status, error)
  return { runSeq: seq, runId: fact.id, status: status satisfies RunStatus }
}

/** One that queues behind its schedule is passed over while an earlier run of that schedule has not ended. */
const OLDEST_PENDING = `
SELECT seq FROM runs r INDEXED BY runs_active
WHERE workflow_id = ? AND status = 'pending' AND finished_at IS NULL AND cancelling IS NULL
  AND (queue_behind = 0 OR NOT EXISTS (
    SELECT 1 FROM runs e INDEXED BY runs_of_schedule
    WHERE e.schedule_id = r.schedule_id AND e.finished_at IS NULL AND e.seq < r.seq))
ORDER BY seq LIMIT 1`

const COUNT_RUNNING = `
SELECT count(*) FROM runs INDEXED BY runs_active WHERE workflow_id = ? AND status = 'running' AND finished_at IS NULL`

/** Starts the oldest waiting runs of a workflow while `max_active_runs` and their schedules allow it. */
export const activate = (tx: Tx, workflowId: number): void => {
  let running: number | null = null
  for (;;) {
    const oldest = tx.db.get<[number]>(OLDEST_PENDING, workflowId)
    if (oldest === undefined) return
    running ??= tx.db.get<[number]>(COUNT_RUNNING, workflowId)![0]
    const max = tx.versions.get(tx.runs.get(oldest[0]).versionId).maxActiveRuns
    if (max !== undefined && running >= max) return
    startRun(tx, oldest[0])
    running++
    tx.wakeOthers = true
  }
}

const START = `
UPDATE runs SET status = 'running', started_at = ?, timeout_at = ?, open_tasks = ?, tasks_total = ? WHERE seq = ?`

/** A pending run gets its rows. */
export const startRun = (tx: Tx, seq: number): void => {
  const fact = tx.runs.get(seq)
  const compiled = tx.versions.get(fact.versionId)
  const rows = initialRows(compiled, fact)
  const timeoutAt = compiled.timeoutMs === undefined ? null : tx.iso(tx.now + compiled.timeoutMs)
  const tasks = rows.reduce((n, row) => (row.kind === "task" ? n + 1 : n), 0)
  tx.db.run(START, tx.at, timeoutAt, rows.length, tasks, seq)
  insertRows(tx, fact, rows, false)
  addNotices(tx, fact.id, deadlineNotifications(compiled, fact), compiled.deadlineMs)
  emitRun(tx, fact.id, "running", null)
}
