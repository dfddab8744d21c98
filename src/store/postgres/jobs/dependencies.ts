// The edges between jobs, and their change while a job is PENDING. Whoever adds an edge holds the rows of the dependencies, so
// that none of them ends unseen in between; the statuses are read after that.

import { planJob, rejectDependencies } from "../../../core/rules/job-plan.ts"
import type { JobStatus } from "../../../core/rules/jobs.ts"
import type { JobRejection, JobRow } from "../../contract/jobs.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { anyParam, arrayParam } from "../connection/array-params.ts"
import { jobEvent, releaseDependents, emitReleased } from "./edges.ts"
import { announceTaskWrites } from "../claim/queue-limits.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"

/** Takes the weakest lock: finishes and claims, which lock `FOR UPDATE`, wait; unparking does not. */
const HOLD = statement(
  "job_deps_hold",
  `SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = ANY (:ids::uuid[]) ORDER BY t.id FOR KEY SHARE OF t`,
)

const KNOWN = statement("job_deps_known", "SELECT id, task_id AS row, status FROM jobs WHERE id = ANY (:ids::uuid[])")

export type Known = Map<string, { row: number; status: JobStatus }>

/** Locks and returns those of the jobs that exist; their statuses do not change until the end of the transaction. */
export const holdKnown = async (tx: SqlRunner, ids: readonly string[]): Promise<Known> => {
  if (ids.length === 0) return new Map()
  const wanted = { ids: anyParam(new Set(ids)) }
  const entered = announceTaskWrites(tx)
  const held = tx.run(HOLD, wanted)
  const known = tx.run<{ id: string; row: number; status: JobStatus }>(KNOWN, wanted)
  await entered
  await held
  return new Map((await known).map(({ id, row, status }) => [id, { row, status }]))
}

export const statusesOf = (jobs: Known): Map<string, JobStatus> => new Map([...jobs].map(([id, { status }]) => [id, status]))

const INSERT = statement(
  "job_edges_insert",
  `INSERT INTO job_edges (dependency, dependent, position)
   SELECT * FROM unnest(:dependencies::bigint[], :rows::bigint[], :places::int[]) ON CONFLICT DO NOTHING`,
)

export const insertEdges = async (
  tx: SqlRunner,
  jobs: readonly { row: number; dependencies: readonly number[] }[],
): Promise<void> => {
  const edges = jobs.flatMap(({ row, dependencies }) => dependencies.map((dependency, place) => ({ dependency, row, place })))
  if (edges.length === 0) return
  await tx.run(INSERT, {
    dependencies: arrayParam(edges.map(({ dependency }) => dependency)),
    rows: arrayParam(edges.map(({ row }) => row)),
    places: arrayParam(edges.map(({ place }) => place)),
  })
}

const TURNS = statement(
  "job_deps_turns",
  "SELECT pg_advisory_xact_lock(hashtextextended('ork job edges ' || current_schema(), 0))",
)

/** Changes of edges follow each other: two that are fine alone may make a circle together. New jobs cannot close one. */
export const takeTurns = (tx: SqlRunner): Promise<unknown> => tx.run(TURNS)

/** Returns why the job cannot get these dependencies, or null. */
export const checkDependencies = async (
  tx: SqlRunner,
  job: JobRow,
  dependencies: readonly string[],
  existing: Known,
): Promise<JobRejection | null> => rejectDependencies(job, dependencies, existing, await edgesAbove(tx, dependencies))

const ABOVE = statement(
  "job_deps_above",
  `WITH RECURSIVE above (id) AS (
     SELECT task_id FROM jobs WHERE id = ANY (:ids::uuid[])
     UNION SELECT e.dependency FROM above a JOIN job_edges e ON e.dependent = a.id)
   SELECT f.id AS "from", d.id AS "to" FROM above a JOIN job_edges e ON e.dependent = a.id
   JOIN jobs f ON f.task_id = e.dependent JOIN jobs d ON d.task_id = e.dependency`,
)

/** All that these jobs depend on, by job. */
const edgesAbove = async (tx: SqlRunner, ids: readonly string[]): Promise<Map<string, string[]>> => {
  const edges = new Map<string, string[]>()
  for (const { from, to } of await tx.run<{ from: string; to: string }>(ABOVE, { ids: anyParam(new Set(ids)) })) {
    const list = edges.get(from)
    if (list === undefined) edges.set(from, [to])
    else list.push(to)
  }
  return edges
}

const REMOVE = statement("job_edges_remove", "DELETE FROM job_edges WHERE dependent = :row")

export const removeEdges = (tx: SqlRunner, row: number): Promise<unknown> => tx.run(REMOVE, { row })

const SET = statement(
  "job_deps_set",
  `WITH row AS (
     UPDATE tasks t SET upstream_pending = :pending, status = :rowStatus, error = COALESCE(:error, t.error),
       finished_at = CASE WHEN :error::text IS NOT NULL THEN COALESCE(:now::timestamptz, now()) END
     WHERE t.id = :row RETURNING ${READINESS("t")}
   ), listed AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs SET status = :status WHERE task_id = :row`,
)

/** Of a PENDING job, or the same as before. Returns what there is to tell. */
export const changeDependencies = async (
  tx: SqlRunner,
  now: string | null,
  at: string,
  job: JobRow,
  dependencies: readonly string[],
  existing: Known,
): Promise<StoreEvent[]> => {
  const removed = pipelined(removeEdges(tx, job.row))
  await insertEdges(tx, [{ row: job.row, dependencies: dependencies.map((id) => existing.get(id)!.row) }])
  await removed
  if (job.status !== "PENDING") return []
  const { status, rowStatus, pending, error } = planJob(dependencies, statusesOf(existing))
  await tx.run(SET, { now, row: job.row, pending, rowStatus, error, status })
  if (status === "PENDING") return []
  if (status === "READY") return [jobEvent(job.id, status, at)]
  const released = await releaseDependents(tx, now, { completed: [], failed: [job.row] })
  return [jobEvent(job.id, status, at, { error }), ...emitReleased(released, at)]
}
