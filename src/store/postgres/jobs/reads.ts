// Jobs as they leave: for people, and for whoever runs them.

import { DEFAULT_JOB_RETRY, type JobRetryPolicy, type JobStatus } from "../../../core/rules/jobs.ts"
import type { Json, JsonObject } from "../../../core/model/json.ts"
import { outputOf } from "../../shared/codec.ts"
import type { JobRow } from "../../contract/jobs.ts"
import type { ClaimedJob } from "../../contract/store.ts"
import { arrayParam } from "../connection/array-params.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const COLUMNS = `j.task_id AS row, j.id, j.name, j.queue, j.payload, j.priority, j.retry_policy, j.task, j.concurrency_key, j.status,
  j.created_at, j.updated_at, t.attempt, t.error, t.exit_code, t.output, t.output_key, t.output_bytes, t.worker, t.attempt_id,
  t.available_at, t.started_at, t.finished_at, ARRAY(
    SELECT d.id::text FROM job_edges e JOIN jobs d ON d.task_id = e.dependency WHERE e.dependent = j.task_id ORDER BY e.position
  ) AS dependencies`

interface Columns {
  row: number
  id: string
  name: string
  queue: string
  payload: string
  priority: number
  retry_policy: string
  task: string | null
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

/** In the order of the rows asked for; each must be there. */
export const readJobs = async (session: SqlRunner, rows: readonly number[]): Promise<JobRow[]> => {
  if (rows.length === 0) return []
  const found = new Map((await session.run<Columns>(BY_ROW, { ids: arrayParam(rows) })).map((c) => [c.row, jobOf(c)]))
  return rows.map((row) => found.get(row)!)
}

export const getJob = async (session: SqlRunner, id: string): Promise<JobRow | null> => {
  const [found] = await session.run<Columns>(BY_ID, { id })
  return found === undefined ? null : jobOf(found)
}

const jobOf = (c: Columns): JobRow => ({
  row: c.row,
  id: c.id,
  name: c.name,
  queue: c.queue,
  payload: JSON.parse(c.payload) as Json,
  priority: c.priority,
  retryPolicy: JSON.parse(c.retry_policy) as JobRetryPolicy,
  task: taskOf(c.task),
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

const taskOf = (text: string | null): JsonObject | null => (text === null ? null : (JSON.parse(text) as JsonObject))

/** Columns of `jobs` that a claim carries. */
export const JOB_CLAIM = "j.task_id AS row, j.id, j.name, j.queue, j.payload, j.retry_policy, j.task, j.created_at"

export type JobClaimColumns = Pick<
  Columns,
  "row" | "id" | "name" | "queue" | "payload" | "retry_policy" | "task" | "created_at"
>

export const jobClaimOf = ({ id, name, queue, payload, retry_policy, task }: JobClaimColumns): ClaimedJob => ({
  id,
  name,
  queue,
  payload: JSON.parse(payload) as Json,
  retryPolicy: JSON.parse(retry_policy) as JobRetryPolicy,
  task: taskOf(task),
})

const LEFT_BEHIND = statement(
  "jobs_left_behind",
  `SELECT ${JOB_CLAIM} FROM unnest(:ids::bigint[]) AS w (id) JOIN jobs j ON j.task_id = w.id`,
)

/** Of a job that was deleted only its end is left to tell. */
const DELETED: ClaimedJob = { id: "", name: "", queue: "", payload: null, retryPolicy: DEFAULT_JOB_RETRY, task: null }

/** What is known of the jobs of these rows. */
export const jobsLeftBehind = async (session: SqlRunner, rows: readonly number[]): Promise<(row: number) => ClaimedJob> => {
  const found = rows.length === 0 ? [] : await session.run<JobClaimColumns>(LEFT_BEHIND, { ids: arrayParam(rows) })
  const jobs = new Map(found.map((columns) => [columns.row, jobClaimOf(columns)]))
  return (row) => jobs.get(row) ?? DELETED
}
