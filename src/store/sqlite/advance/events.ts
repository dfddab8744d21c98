// What a transaction tells: one event per change of a run's or a task's status, in order.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunStatus, TaskStatus } from "../../../core/model/status.ts"
import type { WaitingView } from "../../../core/model/waiting-on.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Progress, StoreEvent } from "../../contract/store.ts"
import { followRow } from "../jobs/status.ts"
import type { Tx } from "../connection/tx.ts"

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

/** Jobs are told of as such. */
export const emitTask = (tx: Tx, row: { runSeq: number; node: number; path: string }, told: TaskEvent): void => {
  if (isJobRow(row.runSeq)) return followRow(tx, row.path, told)
  const fact = tx.runs.get(row.runSeq)
  const event: StoreEvent = {
    type: "task",
    runId: fact.id,
    task: tx.versions.get(fact.versionId).nodes[row.node]!.name,
    path: row.path,
    attempt: told.attempt,
    status: told.status,
    at: told.at,
  }
  if (told.error !== undefined) event.error = told.error
  if (told.availableAt !== undefined) event.availableAt = told.availableAt
  if (told.total !== undefined) event.total = told.total
  if (told.waiting !== undefined) event.waiting = told.waiting
  if (told.progress !== undefined) event.progress = told.progress
  tx.events.push(event)
}

export const emitRun = (tx: Tx, runId: RunId, status: RunStatus, error: string | null): void => {
  const event: StoreEvent = { type: "run", runId, status, at: tx.at }
  if (error !== null) event.error = error
  tx.events.push(event)
}
