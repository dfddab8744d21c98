// Columns of runs as both stores read them, and the rows of the contract that they become.

import { causeOf } from "../../core/model/cause.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { RUN_STATUSES, type RunStatus } from "../../core/model/status.ts"
import { type NewRun, type RunRow, type Store, TRIGGERS } from "../contract/store.ts"

/** Columns of a run `r`, joined with its workflow `w` and version `v`. */
export const RUN_COLUMNS = `r.seq, r.id, r.number, w.name AS workflow, r.workflow_id AS "workflowId", r.version_id AS "versionId", v.version,
  r.status, r.paused, r.cancelling, r."trigger", r.cause, r.params, r.priority, r.logical_date AS "logicalDate", r.created_at AS "createdAt",
  r.created_by AS "createdBy", r.started_at AS "startedAt", r.finished_at AS "finishedAt", r.idle_ms AS "idleMs", r.error, r.private,
  r.working_dir AS "workingDir",
  r.hooks_pending AS "hooksPending", r.tasks_total AS total, r.tasks_success AS success, r.tasks_failed AS failed,
  r.tasks_skipped AS skipped, r.tasks_cancelled AS cancelled, r.root_run_id AS "rootRunId", r.parent_run AS parent,
  r.parent_task AS "parentTask", r.previous_run AS "previousRun"`

export interface RunColumns extends Omit<RunRow, "paused" | "private" | "params" | "cause" | "parent" | "tasks"> {
  paused: boolean | number
  private: boolean | number
  params: string
  cause: string | null
  parent: RunId | null
  parentTask: string | null
  total: number
  success: number
  failed: number
  skipped: number
  cancelled: number
}

/** Number of a run's tasks in these states, hooks excluded. */
export interface InFlightCounts {
  dispatched: number
  running: number
}

export const runOf = (columns: RunColumns, { dispatched, running }: InFlightCounts): RunRow => {
  const { params, cause, parent, parentTask, total, success, failed, skipped, cancelled, ...row } = columns
  const pending = total - success - failed - skipped - cancelled - dispatched - running
  return {
    ...row,
    paused: Boolean(row.paused),
    private: Boolean(row.private),
    params: JSON.parse(params) as JsonObject,
    cause: causeOf(cause),
    parent: parent === null ? null : { runId: parent, task: parentTask! },
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
