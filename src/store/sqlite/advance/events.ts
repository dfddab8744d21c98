// Emits one event per change of a run's or a task's status, in order. A job's row emits the status of the job.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunStatus, TaskStatus } from "../../../core/model/status.ts"
import type { WaitingView } from "../../../core/model/waiting-on.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Progress, StoreEvent } from "../../contract/store.ts"
import { setStatusOfRow } from "../jobs/edges.ts"
import type { Tx } from "../tx.ts"

export interface TaskEvent {
  status: TaskStatus
  at: string
  attempt: number
  error?: string | undefined
  availableAt?: string | undefined
  total?: number
  waiting?: WaitingView
  progress?: Progress
}

export const emitTask = (tx: Tx, row: { runSeq: number; node: number; path: string }, task: TaskEvent): void => {
  if (isJobRow(row.runSeq)) return setStatusOfRow(tx, row.path, task)
  const run = tx.runs.get(row.runSeq)
  const event: StoreEvent = {
    type: "task",
    runId: run.id,
    task: tx.versions.get(run.versionId).nodes[row.node]!.name,
    path: row.path,
    attempt: task.attempt,
    status: task.status,
    at: task.at,
  }
  if (task.error !== undefined) event.error = task.error
  if (task.availableAt !== undefined) event.availableAt = task.availableAt
  if (task.total !== undefined) event.total = task.total
  if (task.waiting !== undefined) event.waiting = task.waiting
  if (task.progress !== undefined) event.progress = task.progress
  tx.events.push(event)
}

export const emitRun = (tx: Tx, runId: RunId, status: RunStatus, error: string | null): void => {
  const event: StoreEvent = { type: "run", runId, status, at: tx.at }
  if (error !== null) event.error = error
  tx.events.push(event)
}
