// The status of jobs: it follows the job's task row, and the end of a job changes the jobs that depend on it. The statements
// implement `propagateCompletion` and `propagateFailure` of core/rules/jobs.ts; the conformance suite checks that they agree.

import type { JobStatus } from "../../../core/rules/jobs.ts"
import { blockedBy } from "../../../core/rules/messages.ts"
import { jobStatus } from "../../shared/job-rows.ts"
import { type JobEvent, jobEvent, type TaskEvent } from "../../shared/events.ts"
import type { Tx } from "../tx.ts"

const SET_STATUS = "UPDATE jobs SET status = ?, updated_at = ? WHERE id = ?"

/** Sets and emits the status of a job, unless the job was deleted. */
export const setJobStatus = (tx: Tx, id: string, status: JobStatus, event: Partial<JobEvent>): void => {
  if (tx.db.run(SET_STATUS, status, tx.at, id) === 1) emitJob(tx, id, status, event)
}

export const emitJob = (tx: Tx, id: string, status: JobStatus, event: Partial<JobEvent>): void => {
  tx.events.push(jobEvent(id, status, { at: tx.at, ...event }))
}

/** Sets the status of a job from the event of its row. The claim has made it RUNNING, so the start changes nothing. */
export const setStatusOfRow = (tx: Tx, id: string, event: TaskEvent): void => {
  if (event.status !== "running") setJobStatus(tx, id, jobStatus(event.status), event)
}

export interface FinishedJob {
  row: number
  id: string
  completed: boolean
}

const EXISTS = "SELECT 1 FROM jobs WHERE task_id = ?"

/** Unblocks or blocks the dependents of a finished job. Deletes the row of a job that was deleted while it ran. */
export const unblockDependents = (tx: Tx, job: FinishedJob): void => {
  if (job.completed) completeDependents(tx, job)
  else blockDependents(tx, job)
  if (tx.db.get(EXISTS, job.row) === undefined) deleteRow(tx, job.row)
}

const COMPLETE = `
UPDATE tasks SET upstream_pending = upstream_pending - 1
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, upstream_pending`

const completeDependents = (tx: Tx, job: FinishedJob): void => {
  const dependents = tx.db.all<[string, number]>(COMPLETE, job.row)
  for (const [id, pending] of dependents.toSorted(byId)) if (pending === 0) setJobStatus(tx, id, "READY", {})
}

const byId = ([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]): number =>
  a < b ? -1 : a > b ? 1 : 0

const BLOCK = `
UPDATE tasks SET status = 'skipped', error = ?, finished_at = ?
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, id`

/** Blocks all jobs that depend on a failed one, directly or not, in this transaction, so that no reader sees them as PENDING. */
export const blockDependents = (tx: Tx, failed: Pick<FinishedJob, "row" | "id">): void => {
  const frontier = [failed]
  for (let job = frontier.pop(); job !== undefined; job = frontier.pop()) {
    const error = blockedBy(job.id)
    const blocked = tx.db.all<[string, number]>(BLOCK, error, tx.at, job.row)
    for (const [id, row] of blocked.toSorted(byId)) {
      setJobStatus(tx, id, "BLOCKED", { error })
      frontier.push({ row, id })
    }
  }
}

const DELETE_ATTEMPTS = "DELETE FROM attempts WHERE task_id = ?"
const DELETE = "DELETE FROM tasks WHERE id = ?"

/** Deletes the task row of a deleted job that has no attempt in flight. */
export const deleteRow = (tx: Tx, row: number): void => {
  tx.db.run(DELETE_ATTEMPTS, row)
  tx.db.run(DELETE, row)
}
