// Creates jobs, all of a call or none. core/rules/job-plan.ts rejects them or plans their first state.

import { type JobPlan, planNewJobs, rejectNewJobs } from "../../../core/rules/job-plan.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobRejection, JobRow, NewJob } from "../../contract/jobs.ts"
import { findJobs, insertEdges, statusesOf } from "./dependencies.ts"
import { emitJob } from "./edges.ts"
import { readJob } from "./reads.ts"
import { limitText } from "../connection/limit-column.ts"
import type { Tx } from "../tx.ts"

export const createJobs = (tx: Tx, jobs: readonly NewJob[]): JobRow[] | JobRejection => {
  const existing = findJobs(tx, [...jobs.map(({ id }) => id), ...jobs.flatMap(({ dependencies }) => dependencies)])
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const rows = new Map<string, number>([...existing].map(([id, { row }]) => [id, row]))
  const planned = planNewJobs(jobs, statusesOf(existing))
  for (const { job, plan } of planned) rows.set(job.id, insertJob(tx, job, plan))
  const plans = new Map(planned.map(({ job, plan }) => [job.id, plan]))
  for (const { id, dependencies } of jobs) {
    const dependencyRows = dependencies.map((dependency) => rows.get(dependency)!)
    insertEdges(tx, rows.get(id)!, dependencyRows)
    emitJob(tx, id, plans.get(id)!.status, {})
  }
  tx.wakeOthers = true
  return jobs.map(({ id }) => readJob(tx, rows.get(id)!))
}

const INSERT = `
INSERT INTO tasks (run_seq, node, path, kind, workflow_id, status, upstream_pending, lane, priority, limits, error, finished_at)
VALUES (0, 0, ?, 'task', 0, ?, ?, ?, ?, ?, ?, ?) RETURNING id`

const INSERT_JOB = `
INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11)`

const insertJob = (tx: Tx, job: NewJob, { status, rowStatus, pending, error }: JobPlan): number => {
  const { id, name, queue, payload, priority, retryPolicy, task, concurrencyKey } = job
  const limits = limitText(tx.limits.ensure(jobLimits(job)))
  const finishedAt = rowStatus === "skipped" ? tx.at : null
  const [row] = tx.db.get<[number]>(INSERT, id, rowStatus, pending, jobLane(job), priority, limits, error, finishedAt)!
  const text = task === null ? null : JSON.stringify(task)
  const policy = JSON.stringify(retryPolicy)
  tx.db.run(INSERT_JOB, row, id, name, queue, priority, status, tx.at, concurrencyKey, policy, text, JSON.stringify(payload))
  return row
}
