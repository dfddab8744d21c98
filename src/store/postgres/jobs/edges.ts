// Edges between jobs. The dependencies of a job can change while it is PENDING. A transaction that adds an edge locks the rows of
// the dependencies before it reads their statuses, so that none of them finishes in between.

import { planJob, rejectDependencies } from "../../../core/rules/jobs/job-plan.ts"
import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import type { JobRejection, JobRow } from "../../contract/jobs.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { jobEvent } from "../../shared/events.ts"
import { dependentEvents, propagateFinishes } from "./dependents.ts"
import { setExpiry } from "./times.ts"
import { lockTasksForWrite } from "../claim/queue-limits.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

/** Takes the weakest lock: a finish waits for it, a claim skips the row, and unparking is not affected. */
const LOCK = statement(
  "job_dependencies_lock",
  `SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = ANY (:ids::uuid[]) ORDER BY t.id FOR KEY SHARE OF t`,
)

const FIND = statement("job_dependencies_find", "SELECT id, task_id AS row, status FROM jobs WHERE id = ANY (:ids::uuid[])")

export type FoundJobs = Map<string, { row: number; status: JobStatus }>

/** Locks and returns those of these jobs that exist. Their statuses do not change until the end of the transaction. */
export const findJobs = async (tx: SqlRunner, ids: readonly string[]): Promise<FoundJobs> => {
  if (ids.length === 0) return new Map()
  const wanted = { ids: [...new Set(ids)] }
  const tableLocked = lockTasksForWrite(tx)
  const locked = tx.run(LOCK, wanted)
  const found = tx.run<{ id: string; row: number; status: JobStatus }>(FIND, wanted)
  await tableLocked
  await locked
  return new Map((await found).map(({ id, row, status }) => [id, { row, status }]))
}

export const statusesOf = (jobs: FoundJobs): Map<string, JobStatus> =>
  new Map([...jobs].map(([id, { status }]) => [id, status]))

const INSERT = statement(
  "job_edges_insert",
  `INSERT INTO job_edges (dependency, dependent, position)
   SELECT * FROM unnest(:dependencies::bigint[], :rows::bigint[], :positions::int[]) ON CONFLICT DO NOTHING`,
)

export const insertEdges = async (
  tx: SqlRunner,
  jobs: readonly { row: number; dependencies: readonly number[] }[],
): Promise<void> => {
  const edges = jobs.flatMap(({ row, dependencies }) =>
    dependencies.map((dependency, position) => ({ dependency, row, position })),
  )
  if (edges.length === 0) return
  await tx.run(INSERT, {
    dependencies: edges.map(({ dependency }) => dependency),
    rows: edges.map(({ row }) => row),
    positions: edges.map(({ position }) => position),
  })
}

const LOCK_EDGES = statement(
  "job_edges_lock_changes",
  "SELECT pg_advisory_xact_lock(hashtextextended('ork job edges ' || current_schema(), 0))",
)

/** Serializes changes of dependencies: two changes that are valid alone may form a cycle together. New jobs cannot close a cycle. */
export const lockEdges = (tx: SqlRunner): Promise<unknown> => tx.run(LOCK_EDGES)

/** Returns why the job cannot get these dependencies, or null. */
export const checkDependencies = async (
  tx: SqlRunner,
  job: JobRow,
  dependencies: readonly string[],
  existing: FoundJobs,
): Promise<JobRejection | null> => rejectDependencies(job, dependencies, existing, await edgesAbove(tx, dependencies))

const ABOVE = statement(
  "job_dependencies_above",
  `WITH RECURSIVE above (id) AS (
     SELECT task_id FROM jobs WHERE id = ANY (:ids::uuid[])
     UNION SELECT e.dependency FROM above a JOIN job_edges e ON e.dependent = a.id)
   SELECT dependent.id AS "from", dependency.id AS "to" FROM above a JOIN job_edges e ON e.dependent = a.id
   JOIN jobs dependent ON dependent.task_id = e.dependent JOIN jobs dependency ON dependency.task_id = e.dependency`,
)

/** Returns the dependencies of everything above these jobs, by job id. */
const edgesAbove = async (tx: SqlRunner, ids: readonly string[]): Promise<Map<string, string[]>> => {
  const edges = new Map<string, string[]>()
  for (const { from, to } of await tx.run<{ from: string; to: string }>(ABOVE, { ids: [...new Set(ids)] })) {
    const list = edges.get(from)
    if (list === undefined) edges.set(from, [to])
    else list.push(to)
  }
  return edges
}

const REMOVE = statement("job_edges_remove", "DELETE FROM job_edges WHERE dependent = :row")

export const removeEdges = (tx: SqlRunner, row: number): Promise<unknown> => tx.run(REMOVE, { row })

const SET_PLAN = statement(
  "job_dependencies_set_plan",
  `WITH row AS (
     UPDATE tasks t SET upstream_pending = :pending, status = :rowStatus, error = COALESCE(:error, t.error),
       finished_at = CASE WHEN :error::text IS NOT NULL THEN ${NOW} END,
       available_at = CASE WHEN :error::text IS NULL THEN t.available_at END
     WHERE t.id = :row RETURNING ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs SET status = :status WHERE task_id = :row`,
)

/** Replaces the dependencies of a job and returns the events. Its status changes only while it is PENDING. */
export const changeDependencies = async (
  tx: SqlRunner,
  { job, at }: { job: JobRow; at: string },
  dependencies: readonly string[],
  existing: FoundJobs,
): Promise<StoreEvent[]> => {
  const removed = pipelined(removeEdges(tx, job.row))
  await insertEdges(tx, [{ row: job.row, dependencies: dependencies.map((id) => existing.get(id)!.row) }])
  await removed
  if (job.status !== "PENDING") return []
  const { status, rowStatus, pending, error } = planJob(dependencies, statusesOf(existing))
  await tx.run(SET_PLAN, { row: job.row, pending, rowStatus, error, status })
  if (status === "PENDING") return []
  if (status === "READY") {
    await setExpiry(tx, [job.row])
    return [jobEvent(job, status, { at })]
  }
  const dependents = await propagateFinishes(tx, { completed: [], failed: [job.row] })
  return [jobEvent(job, status, { at, error }), ...dependentEvents(dependents, at)]
}
