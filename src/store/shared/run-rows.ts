// Columns of runs as both stores read them, and the rows of the contract that they become.

import type { RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/model/json.ts"
import { RUN_STATUSES, type RunStatus } from "../../core/model/status.ts"
import { type CancelReason, type NewRun, type RunRow, type Store, TRIGGERS } from "../contract/store.ts"

/** Columns of a run `r`, joined with its workflow `w` and version `v`. */
export const RUN_COLUMNS = `r.seq, r.id, w.name, r.workflow_id, r.version_id, v.version, r.status, r.paused, r.cancelling, r."trigger",
  r.params, r.priority, r.logical_date, r.created_at, r.started_at, r.finished_at, r.error, r.private, r.working_dir, r.hooks_pending,
  r.tasks_total, r.tasks_success, r.tasks_failed, r.tasks_skipped, r.tasks_cancelled, r.root_run_id, r.parent_run, r.parent_task`

export interface RunColumns {
  seq: number
  id: RunId
  name: string
  workflow_id: number
  version_id: number
  version: number
  status: RunStatus
  paused: boolean | number
  cancelling: CancelReason | null
  trigger: string
  params: string
  priority: number
  logical_date: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
  error: string | null
  private: boolean | number
  working_dir: string | null
  hooks_pending: number
  tasks_total: number
  tasks_success: number
  tasks_failed: number
  tasks_skipped: number
  tasks_cancelled: number
  root_run_id: RunId | null
  parent_run: RunId | null
  parent_task: string | null
}

/** `dispatched`, `running`: number of its tasks in these states, hooks excluded. */
export const runOf = (c: RunColumns, { dispatched, running }: { dispatched: number; running: number }): RunRow => {
  const { tasks_success: success, tasks_failed: failed, tasks_skipped: skipped, tasks_cancelled: cancelled } = c
  const pending = c.tasks_total - success - failed - skipped - cancelled - dispatched - running
  return {
    seq: c.seq,
    id: c.id,
    workflow: c.name,
    workflowId: c.workflow_id,
    versionId: c.version_id,
    version: c.version,
    status: c.status,
    paused: Boolean(c.paused),
    cancelling: c.cancelling,
    trigger: c.trigger,
    params: JSON.parse(c.params) as JsonObject,
    priority: c.priority,
    logicalDate: c.logical_date,
    createdAt: c.created_at,
    startedAt: c.started_at,
    finishedAt: c.finished_at,
    error: c.error,
    private: Boolean(c.private),
    workingDir: c.working_dir,
    rootRunId: c.root_run_id,
    parent: c.parent_run === null ? null : { runId: c.parent_run, task: c.parent_task! },
    hooksPending: c.hooks_pending,
    tasks: { pending, dispatched, running, success, failed, skipped, cancelled },
  }
}

export type RunQuery = Parameters<Store["listRuns"]>[0]

interface Position {
  createdAt: string
  id: string
}

/**
 * Returns the position before which a page of runs ends: the earlier of the cursor and `createdBefore`. `last`: sorts after every run.
 * `firstId`: sorts before every run of the same instant.
 */
export const upperBound = ({ before, createdBefore }: RunQuery, last: Position, firstId: string): Position =>
  createdBefore !== undefined && (before === undefined || createdBefore <= before.createdAt)
    ? { createdAt: createdBefore, id: firstId }
    : (before ?? last)

/** Returns the pairs of trigger and status that a query matches. */
export const kindsOf = ({ trigger, status }: RunQuery): { trigger: NewRun["trigger"]; status: RunStatus }[] => {
  const statuses = status === undefined ? RUN_STATUSES : [status]
  return (trigger === undefined ? TRIGGERS : [trigger]).flatMap((one) =>
    statuses.map((each) => ({ trigger: one, status: each })),
  )
}
