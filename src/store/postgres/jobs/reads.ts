// Reads jobs.

import type { JobStatus } from "../../../core/rules/jobs.ts"
import { outputOf } from "../../shared/codec.ts"
import { claimedJob, type ClaimedJobColumns } from "../../shared/job-rows.ts"
import type { JobRow } from "../../contract/jobs.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const COLUMNS = `j.task_id AS row, j.id, j.name, j.queue, j.payload, j.priority, j.retry_policy, j.task, j.concurrency_key, j.status,
  j.created_at, j.updated_at, t.attempt, t.error, t.exit_code, t.output, t.output_key, t.output_bytes, t.worker, t.attempt_id,
  t.available_at, t.started_at, t.finished_at, ARRAY(
    SELECT d.id::text FROM job_edges e JOIN jobs d ON d.task_id = e.dependency WHERE e.dependent = j.task_id ORDER BY e.position
  ) AS dependencies`

interface Columns extends ClaimedJobColumns {
  row: number
  priority: number
  concurrency_key: string | null
  status: JobStatus
  created_at: string
  updated_at: string
  attempt: number
  error: string | null
  exit_code: number | null
  output: string | null
  output_key: string | null
  output_bytes: number | null
  worker: string | null
  attempt_id: string | null
  available_at: string | null
  started_at: string | null
  finished_at: string | null
  dependencies: string[]
}

const BY_ROW = statement(
  "jobs_by_row",
  `SELECT ${COLUMNS} FROM unnest(:ids::bigint[]) AS w (id) JOIN jobs j ON j.task_id = w.id JOIN tasks t ON t.id = j.task_id`,
)

const BY_ID = statement("job_by_id", `SELECT ${COLUMNS} FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = :id::uuid`)

/** Returns the jobs of these rows, in their order. Each must exist. */
export const readJobs = async (connection: SqlRunner, rows: readonly number[]): Promise<JobRow[]> => {
  if (rows.length === 0) return []
  const found = new Map((await connection.run<Columns>(BY_ROW, { ids: rows })).map((c) => [c.row, jobOf(c)]))
  return rows.map((row) => found.get(row)!)
}

export const getJob = async (connection: SqlRunner, id: string): Promise<JobRow | null> => {
  const [found] = await connection.run<Columns>(BY_ID, { id })
  return found === undefined ? null : jobOf(found)
}

const jobOf = (c: Columns): JobRow => ({
  ...claimedJob(c),
  row: c.row,
  priority: c.priority,
  concurrencyKey: c.concurrency_key,
  status: c.status,
  createdAt: c.created_at,
  updatedAt: c.updated_at,
  attemptCount: c.attempt,
  error: c.error,
  exitCode: c.exit_code,
  output: outputOf(c.output, c.output_key, c.output_bytes),
  worker: c.worker,
  attemptId: c.attempt_id,
  availableAt: c.available_at,
  startedAt: c.started_at,
  finishedAt: c.finished_at,
  dependencies: c.dependencies,
})
