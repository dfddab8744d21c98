// The part of a job that its claim carries.

import { claimedJob, DELETED_JOB } from "../../shared/job-rows.ts"
import type { ClaimedJob } from "../../contract/claim.ts"
import type { StoreContext } from "../tx.ts"

const READ = `
SELECT j.task_id, j.id, j.name, j.queue, j.payload, j.retry_policy, j.task, j.settings, j.created_at
FROM json_each(?) AS wanted CROSS JOIN jobs j ON j.task_id = wanted.value`

type Columns = [number, string, string, string, string, string, string | null, string | null, string]

export interface JobOfClaim {
  job: ClaimedJob
  createdAt: string
}

/** Stands in for a job that was deleted while its attempt was in flight. */
const DELETED: JobOfClaim = { job: DELETED_JOB, createdAt: "" }

/** Reads the jobs of these rows. Returns a function that returns the job of a row. */
export const readJobClaims = (context: StoreContext, rows: readonly number[]): ((row: number) => JobOfClaim) => {
  const jobs = new Map<number, JobOfClaim>()
  if (rows.length === 0) return () => DELETED
  for (const columns of context.db.all<Columns>(READ, JSON.stringify(rows))) {
    const [row, id, name, queue, payload, retry_policy, task, settings, createdAt] = columns
    jobs.set(row, { job: claimedJob({ id, name, queue, payload, retry_policy, task, settings }), createdAt })
  }
  return (row) => jobs.get(row) ?? DELETED
}

/** Returns the job of an orphaned attempt. */
export const jobOfOrphan = (context: StoreContext, row: number): ClaimedJob => readJobClaims(context, [row])(row).job
