// Creates jobs, all of a call or none. core/rules/jobs/job-plan.ts rejects them or plans their keys and their first state.

import { type JobPlan, keyOfJob, planKeys, planNewJobs, rejectNewJobs } from "../../../core/rules/jobs/job-plan.ts"
import { availableAtMs, createdJob, groupId, jobLane, jobLimits, keyColumn, settingsColumn } from "../../shared/job-rows.ts"
import type { JobRejection, JobRow, NewJob, OnKeyConflict } from "../../contract/jobs.ts"
import { findJobs, insertEdges, statusesOf } from "./dependencies.ts"
import { emitJob } from "./edges.ts"
import { setExpiry } from "./times.ts"
import { readJob } from "./reads.ts"
import { replaceJob } from "./replace.ts"
import { limitText } from "../connection/limit-column.ts"
import type { Session, Tx } from "../tx.ts"

export const createJobs = (tx: Tx, given: readonly NewJob[], onConflict: OnKeyConflict): JobRow[] | JobRejection => {
  const plan = planKeys(given, findKeys(tx, given), onConflict)
  if ("rejected" in plan) return plan
  const jobs = plan.fresh
  const found = plan.results.flatMap(({ id, created }) => (created ? [] : id))
  const existing = findJobs(tx, [...found, ...jobs.flatMap(({ id, dependencies }) => [id, ...dependencies])])
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const created = new Map<string, JobRow>()
  for (const { job, plan: first } of planNewJobs(jobs, statusesOf(existing))) created.set(job.id, insertJob(tx, job, first))
  const rowOf = (id: string): number => created.get(id)?.row ?? existing.get(id)!.row
  for (const job of jobs) {
    if (job.dependencies.length > 0) insertEdges(tx, rowOf(job.id), job.dependencies.map(rowOf))
    if (job.callerRow !== undefined) insertEdges(tx, job.callerRow, [rowOf(job.id)])
    const { status, availableAt } = created.get(job.id)!
    emitJob(tx, job, status, { availableAt })
  }
  for (const { id, by } of plan.replaced) replaceJob(tx, rowOf(id), by)
  tx.wakeOthers = true
  return plan.results.map(({ id, created: isNew }) =>
    isNew ? created.get(id)! : { ...readJob(tx, rowOf(id)), created: false },
  )
}

const FIND_KEY = "SELECT id FROM jobs WHERE name = ? AND key = ?"

/** Returns the id of the job that has this key, if any. */
export const findKey = ({ db }: Session, { name, key }: Pick<NewJob, "name" | "key">): string | undefined =>
  key === null ? undefined : db.get<[string]>(FIND_KEY, name, keyColumn({ key }))?.[0]

const findKeys = (session: Session, jobs: readonly NewJob[]): Map<string, string> => {
  const found = new Map<string, string>()
  for (const job of jobs) {
    const id = findKey(session, job)
    if (id !== undefined) found.set(keyOfJob(job)!, id)
  }
  return found
}

const INSERT = `
INSERT INTO tasks (run_seq, node, path, kind, workflow_id, status, upstream_pending, lane, priority, limits, error, finished_at,
  available_at, item)
VALUES (0, 0, ?, 'task', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`

const INSERT_JOB = `
INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload,
  key, settings, expires_ms, created_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

const insertJob = (tx: Tx, job: NewJob, plan: JobPlan): JobRow => {
  const { status, rowStatus, pending, error } = plan
  const { id, name, queue, payload, priority, retryPolicy, task, concurrencyKey, expiresMs } = job
  const limits = limitText(tx.limits.ensure(jobLimits(job)))
  const isBlocked = rowStatus === "skipped"
  const availableMs = isBlocked ? null : availableAtMs(job, tx.now)
  const availableAt = availableMs === null ? null : tx.iso(availableMs)
  const [row] = tx.db.get<[number]>(
    INSERT,
    id,
    groupId(job),
    rowStatus,
    pending,
    jobLane(job),
    priority,
    limits,
    error,
    isBlocked ? tx.at : null,
    availableAt,
    name,
  )!
  tx.db.put(
    INSERT_JOB,
    row,
    id,
    name,
    queue,
    priority,
    status,
    tx.at,
    concurrencyKey,
    JSON.stringify(retryPolicy),
    task === null ? null : JSON.stringify(task),
    JSON.stringify(payload),
    keyColumn(job),
    settingsColumn(job),
    expiresMs,
    job.createdBy ?? null,
  )
  if (status === "READY") setExpiry(tx, row, expiresMs, availableMs)
  return createdJob(job, plan, { row, at: tx.at, availableAt })
}
