// Inserts planned jobs: the rows of `tasks` together, because rows that differ only by the id of their job take one statement, then
// the rows of `jobs`.

import type { JobPlan } from "../../../core/rules/jobs/job-plan.ts"
import {
  availableAtMs,
  createdJob,
  jobGroupNumber,
  jobLane,
  jobLimits,
  keyColumn,
  settingsColumn,
  sharedJson,
} from "../../shared/job-rows.ts"
import type { JobRow, NewJob } from "../../contract/jobs.ts"
import type { Value } from "../connection/database.ts"
import { limitText } from "../connection/limit-column.ts"
import type { Tx } from "../tx.ts"
import { setExpiry } from "./times.ts"

interface PlannedJob {
  job: NewJob
  plan: JobPlan
}

/** Inserts the jobs in this order, and returns them by id. */
export const insertJobs = (tx: Tx, planned: readonly PlannedJob[]): Map<string, JobRow> => {
  const created = new Map<string, JobRow>()
  if (planned.length === 0) return created
  const rows = planned.map(({ job, plan }) => newRow(tx, job, plan))
  const first = insertRows(tx, rows)
  for (const [i, { job, plan }] of planned.entries())
    created.set(job.id, insertJob(tx, job, plan, { row: first + i, availableMs: rows[i]!.availableMs }))
  return created
}

// -- rows of tasks -----------------------------------------------------------------------------------------------------------------

const INSERT_ROWS = `
INSERT INTO tasks (id, run_seq, node, path, kind, workflow_id, status, upstream_pending, lane, priority, limits, error, finished_at,
  available_at, item)
SELECT ? + key, 0, 0, value, 'task', ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM json_each(?)`

interface NewJobRow {
  /** The id of the job. */
  path: string
  /** Values of `workflow_id` and the columns after it. */
  columns: readonly Value[]
  /** When the job becomes available, in epoch milliseconds; null: at once. */
  availableMs: number | null
}

const newRow = (tx: Tx, job: NewJob, { rowStatus, pending, error }: JobPlan): NewJobRow => {
  const limits = limitText(tx.limits.ensure(jobLimits(job)))
  const isBlocked = rowStatus === "skipped"
  const availableMs = isBlocked ? null : availableAtMs(job, tx.now)
  const finishedAt = isBlocked ? tx.at : null
  const availableAt = availableMs === null ? null : tx.iso(availableMs)
  const place: Value[] = [jobGroupNumber(job), rowStatus, pending, jobLane(job), job.priority, limits]
  return { path: job.id, columns: [...place, error, finishedAt, availableAt, job.name], availableMs }
}

const LAST_ROW = "SELECT coalesce(max(id), 0) FROM tasks"

/** Returns the number of the first row. The others follow it in order. */
const insertRows = (tx: Tx, rows: readonly NewJobRow[]): number => {
  const first = tx.db.get<[number]>(LAST_ROW)![0] + 1
  for (let from = 0, to = 0; from < rows.length; from = to) {
    const { columns } = rows[from]!
    const paths: string[] = []
    for (; to < rows.length && isSame(rows[to]!.columns, columns); to++) paths.push(rows[to]!.path)
    tx.db.put(INSERT_ROWS, first + from, ...columns, JSON.stringify(paths))
  }
  return first
}

const isSame = (a: readonly Value[], b: readonly Value[]): boolean => a.every((value, i) => value === b[i])

// -- rows of jobs ------------------------------------------------------------------------------------------------------------------

const INSERT_JOB = `
INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload,
  key, settings, expires_ms, created_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

const insertJob = (
  tx: Tx,
  job: NewJob,
  plan: JobPlan,
  { row, availableMs }: { row: number; availableMs: number | null },
): JobRow => {
  const { id, name, queue, payload, priority, retryPolicy, task, concurrencyKey, expiresMs } = job
  tx.db.put(
    INSERT_JOB,
    row,
    id,
    name,
    queue,
    priority,
    plan.status,
    tx.at,
    concurrencyKey,
    sharedJson(retryPolicy),
    task === null ? null : sharedJson(task),
    JSON.stringify(payload),
    keyColumn(job),
    settingsColumn(job),
    expiresMs,
    job.createdBy ?? null,
  )
  if (plan.status === "READY") setExpiry(tx, row, expiresMs, availableMs)
  return createdJob(job, plan, { row, at: tx.at, availableAt: availableMs === null ? null : tx.iso(availableMs) })
}
