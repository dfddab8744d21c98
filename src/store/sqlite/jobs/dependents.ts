// Effects of finished jobs on the jobs and functions that wait for them. The statements implement `propagateCompletion` and
// `propagateFailure` of core/rules/jobs/published.ts; the conformance suite checks that they agree.

import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { blockedBy } from "../../../core/rules/messages.ts"
import { isDeletedJob } from "../../shared/job-rows.ts"
import { deleteRow } from "./delete-row.ts"
import { type JobRowKey, setJobStatus } from "./job-status.ts"
import { setExpiry } from "./times.ts"
import { requestResume } from "../advance/request-resume.ts"
import type { Tx } from "../tx.ts"

export interface FinishedJob {
  row: number
  id: string
  status: JobStatus
}

const END = "UPDATE jobs SET status = ?, updated_at = ? WHERE task_id IN (SELECT value FROM json_each(?))"

/**
 * Writes the status of finished jobs, and unblocks or blocks their dependents. Deletes the rows of jobs that were deleted while they
 * ran.
 */
export const finishJobs = (tx: Tx, jobs: readonly FinishedJob[]): void => {
  for (const [status, ended] of Map.groupBy(jobs, (job) => job.status))
    tx.db.run(END, status, tx.at, JSON.stringify(ended.map(({ row }) => row)))
  propagateFinishes(tx, jobs)
  for (const { id, row } of jobs) if (isDeletedJob(id)) deleteRow(tx, row)
}

const WITH_DEPENDENTS = `
SELECT DISTINCT e.dependency FROM json_each(?) AS finished CROSS JOIN job_edges e ON e.dependency = finished.value`

const propagateFinishes = (tx: Tx, jobs: readonly FinishedJob[]): void => {
  if (jobs.length === 0) return
  const rows = tx.db.all<[number]>(WITH_DEPENDENTS, JSON.stringify(jobs.map(({ row }) => row)))
  const hasDependents = new Set(rows.map(([row]) => row))
  for (const job of jobs) {
    if (!hasDependents.has(job.row)) continue
    resumeCaller(tx, job.row)
    if (job.status === "COMPLETED") completeDependents(tx, job)
    else blockDependents(tx, job)
  }
}

const LEAVE_CALLER = `
DELETE FROM job_edges WHERE dependency = ? AND dependent IN (SELECT id FROM tasks WHERE id = job_edges.dependent AND run_seq <> 0)
RETURNING dependent`

/** Resumes the durable function that has called the job. */
const resumeCaller = (tx: Tx, row: number): void => {
  for (const [caller] of tx.db.all<[number]>(LEAVE_CALLER, row)) requestResume(tx, caller)
}

const COMPLETE = `
UPDATE tasks SET upstream_pending = upstream_pending - 1
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, id, item, lane, upstream_pending`

const completeDependents = (tx: Tx, job: FinishedJob): void => {
  const dependents = tx.db.all<[string, number, string | null, string, number]>(COMPLETE, job.row)
  for (const [path, id, jobName, lane, pending] of dependents.toSorted(byId))
    if (pending === 0) becomeReady(tx, { path, id, jobName, lane })
}

const EXPIRY = `
SELECT j.expires_ms, t.available_at FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.task_id = ? AND j.expires_ms IS NOT NULL`

/** Makes a job READY whose dependencies are completed. */
export const becomeReady = (tx: Tx, row: JobRowKey & { id: number }): void => {
  setJobStatus(tx, row, "READY", {})
  const found = tx.db.get<[number, string | null]>(EXPIRY, row.id)
  if (found !== undefined) setExpiry(tx, row.id, found[0], found[1] === null ? null : Date.parse(found[1]))
}

const byId = ([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]): number =>
  a < b ? -1 : a > b ? 1 : 0

const BLOCK = `
UPDATE tasks SET status = 'skipped', error = ?, finished_at = ?, available_at = NULL
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, id, item, lane`

/** Blocks all jobs that depend on a failed one, directly or not, in this transaction, so that no reader sees them as PENDING. */
export const blockDependents = (tx: Tx, failed: Pick<FinishedJob, "row" | "id">): void => {
  const frontier = [failed]
  for (let job = frontier.pop(); job !== undefined; job = frontier.pop()) {
    const error = blockedBy(job.id)
    const blocked = tx.db.all<[string, number, string | null, string]>(BLOCK, error, tx.at, job.row)
    for (const [path, id, jobName, lane] of blocked.toSorted(byId)) {
      setJobStatus(tx, { path, id, jobName, lane }, "BLOCKED", { error })
      frontier.push({ row: id, id: path })
    }
  }
}
