// Edges between jobs. The dependencies of a job can change while it is PENDING.

import { planJob, rejectDependencies } from "../../../core/rules/jobs/job-plan.ts"
import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import type { JobRejection, JobRow } from "../../contract/jobs.ts"
import { jobLane } from "../../shared/job-rows.ts"
import { becomeReady, blockDependents } from "./dependents.ts"
import { setJobStatus } from "./job-status.ts"
import type { StoreContext, Tx } from "../tx.ts"

const FIND = `
SELECT j.id, j.task_id, j.status FROM json_each(?) AS wanted CROSS JOIN jobs j ON j.id = wanted.value`

export type FoundJobs = Map<string, { row: number; status: JobStatus }>

/** Returns those of these jobs that exist. */
export const findJobs = (context: StoreContext, ids: readonly string[]): FoundJobs =>
  new Map(
    context.db.all<[string, number, JobStatus]>(FIND, JSON.stringify(ids)).map(([id, row, status]) => [id, { row, status }]),
  )

export const statusesOf = (jobs: FoundJobs): Map<string, JobStatus> =>
  new Map([...jobs].map(([id, { status }]) => [id, status]))

const INSERT = "INSERT INTO job_edges (dependency, dependent, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

export const insertEdges = (tx: Tx, dependent: number, dependencies: readonly number[]): void => {
  for (const [position, dependency] of dependencies.entries()) tx.db.run(INSERT, dependency, dependent, position)
}

/** Returns why the job cannot get these dependencies, or null. */
export const checkDependencies = (tx: Tx, job: JobRow, dependencies: readonly string[]): JobRejection | null =>
  rejectDependencies(job, dependencies, findJobs(tx, dependencies), edgesAbove(tx, dependencies))

const ABOVE = `
WITH RECURSIVE above(row) AS (
  SELECT j.task_id FROM json_each(?) AS wanted JOIN jobs j ON j.id = wanted.value
  UNION SELECT e.dependency FROM above JOIN job_edges e ON e.dependent = above.row)
SELECT dependent.id AS "from", dependency.id AS "to" FROM above JOIN job_edges e ON e.dependent = above.row
JOIN jobs dependent ON dependent.task_id = e.dependent JOIN jobs dependency ON dependency.task_id = e.dependency`

/** Returns the dependencies of everything above these jobs, by job id. */
const edgesAbove = (tx: Tx, ids: readonly string[]): Map<string, string[]> => {
  const edges = new Map<string, string[]>()
  for (const [from, to] of tx.db.all<[string, string]>(ABOVE, JSON.stringify(ids))) {
    const list = edges.get(from)
    if (list === undefined) edges.set(from, [to])
    else list.push(to)
  }
  return edges
}

const REMOVE = "DELETE FROM job_edges WHERE dependent = ?"
const SET_PENDING = "UPDATE tasks SET upstream_pending = ? WHERE id = ?"
const BLOCK = "UPDATE tasks SET status = 'skipped', error = ?, finished_at = ?, available_at = NULL WHERE id = ?"

/** Replaces the dependencies of a job. Its status changes only while it is PENDING. */
export const changeDependencies = (tx: Tx, job: JobRow, dependencies: readonly string[]): void => {
  const existing = findJobs(tx, dependencies)
  tx.db.run(REMOVE, job.row)
  insertEdges(
    tx,
    job.row,
    dependencies.map((id) => existing.get(id)!.row),
  )
  if (job.status !== "PENDING") return
  const { status, pending, error } = planJob(dependencies, statusesOf(existing))
  tx.db.run(SET_PENDING, pending, job.row)
  const key = { id: job.row, path: job.id, jobName: job.name, lane: jobLane(job) }
  if (status === "READY") becomeReady(tx, key)
  if (error === null) return
  tx.db.run(BLOCK, error, tx.at, job.row)
  setJobStatus(tx, key, status, { error })
  blockDependents(tx, { row: job.row, id: job.id })
}
