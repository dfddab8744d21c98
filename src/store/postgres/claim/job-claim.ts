// The part of a job that its claim carries.

import { claimedJob, type ClaimedJobColumns, DELETED_JOB } from "../../shared/job-rows.ts"
import type { ClaimedJob } from "../../contract/claim.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

interface JobClaimColumns extends ClaimedJobColumns {
  row: number
  created_at: string
}

const READ = statement(
  "job_claims_read",
  `SELECT j.task_id AS row, j.id, j.name, j.queue, j.payload, j.retry_policy, j.task, j.settings, j.created_at
   FROM unnest(:rows::bigint[]) AS w (id) JOIN jobs j ON j.task_id = w.id`,
)

/** Returns the jobs of these rows by row. Sends its statement before it returns. */
export const readJobClaims = async (connection: SqlRunner, rows: readonly number[]): Promise<Map<number, JobClaimColumns>> =>
  new Map((await connection.run<JobClaimColumns>(READ, { rows })).map((columns) => [columns.row, columns]))

/** Returns the jobs of orphaned attempts by their rows. */
export const jobsOfOrphans = async (connection: SqlRunner, rows: readonly number[]): Promise<(row: number) => ClaimedJob> => {
  const found = rows.length === 0 ? new Map<number, JobClaimColumns>() : await readJobClaims(connection, rows)
  return (row) => {
    const columns = found.get(row)
    return columns === undefined ? DELETED_JOB : claimedJob(columns)
  }
}
