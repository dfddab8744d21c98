// The part of a job that its claim carries.

import { claimedJob, type ClaimedJobColumns, DELETED_JOB } from "../../shared/job-rows.ts"
import type { ClaimedJob } from "../../contract/claim.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

/** Columns of the job `j` that a claim carries. */
export const JOB_CLAIM = "j.task_id AS row, j.id, j.name, j.queue, j.payload, j.retry_policy, j.task, j.created_at"

export interface JobClaimColumns extends ClaimedJobColumns {
  row: number
  created_at: string
}

const READ = statement(
  "job_claims_read",
  `SELECT ${JOB_CLAIM} FROM unnest(:rows::bigint[]) AS w (id) JOIN jobs j ON j.task_id = w.id`,
)

/** Returns the jobs of orphaned attempts by their rows. */
export const jobsOfOrphans = async (connection: SqlRunner, rows: readonly number[]): Promise<(row: number) => ClaimedJob> => {
  const found = rows.length === 0 ? [] : await connection.run<JobClaimColumns>(READ, { rows })
  const jobs = new Map(found.map((columns) => [columns.row, claimedJob(columns)]))
  return (row) => jobs.get(row) ?? DELETED_JOB
}
