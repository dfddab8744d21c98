// The status of jobs: it follows the job's task row. A status that is set is also emitted.

import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { isDeletedJob, jobStatus } from "../../shared/job-rows.ts"
import { type EventJob, type JobEvent, jobEvent, jobOfRow, type TaskEvent } from "../../shared/events.ts"
import type { Tx } from "../tx.ts"

const SET_STATUS = "UPDATE jobs SET status = ?, updated_at = ? WHERE task_id = ?"

/** Columns of a job's row that its events need. */
export interface JobRowKey {
  /** Absent: the caller does not know it, and nothing is written. */
  id?: number
  path: string
  jobName?: string | null
  lane?: string
}

/** Sets and emits the status of a job, unless the job was deleted. */
export const setJobStatus = (tx: Tx, row: JobRowKey, status: JobStatus, event: Partial<JobEvent>): void => {
  if (tx.db.run(SET_STATUS, status, tx.at, row.id ?? null) === 1) emitJob(tx, row, status, event)
}

/** Emits the status of a job, unless the job was deleted. */
export const emitJob = (tx: Tx, row: JobRowKey, status: JobStatus, event: Partial<JobEvent>): void => {
  if (!isDeletedJob(row.path)) emitNewJob(tx, jobOfRow(row), status, event)
}

export const emitNewJob = (tx: Tx, job: EventJob, status: JobStatus, event: Partial<JobEvent>): void => {
  tx.events.push(jobEvent(job, status, hasInstant(event) ? event : { ...event, at: tx.at }))
}

const hasInstant = (event: Partial<JobEvent>): event is JobEvent => event.at !== undefined

/**
 * Applies the event of a job's row to the job. A job is RUNNING from its claim on, which does not write to `jobs`; its start changes
 * nothing. The caller passes the end of a job to `finishJobs`.
 */
export const updateAndEmitJob = (tx: Tx, row: JobRowKey, event: TaskEvent): void => {
  const status = jobStatus(event.status)
  if (status === "READY") setJobStatus(tx, row, status, event)
  else if (event.status !== "running" || event.progress !== undefined) emitJob(tx, row, status, event)
}
