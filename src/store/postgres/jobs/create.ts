// New jobs, all or none. Their statuses follow from their dependencies by the rules of core/rules/jobs.ts.

import { detectCycle, type JobStatus, propagateFailure } from "../../../core/rules/jobs.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobRefusal, JobRow, NewJob } from "../../contract/jobs.ts"
import { blockedBy } from "../../shared/messages.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { logEvents } from "../advance/event-log.ts"
import { holdKnown, insertEdges, type Known, openOf, waitingStatus } from "./dependencies.ts"
import { jobEvent } from "./edges.ts"
import { readJobs } from "./reads.ts"
import { ensureLimits } from "../claim/limits.ts"
import { ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

export const createJobs = async (
  tx: SqlRunner,
  now: string | null,
  jobs: readonly NewJob[],
): Promise<JobRow[] | JobRefusal> => {
  if (jobs.length === 0) return []
  const ids = [...jobs.map(({ id }) => id), ...jobs.flatMap(({ dependencies }) => dependencies)]
  const existing = await holdKnown(tx, ids)
  const refused = refusalOf(jobs, existing)
  if (refused !== null) return refused
  const statuses = statusesOf(jobs, existing)
  const rows = await insert(tx, now, jobs, statuses)
  const rowOf = (id: string): number => rows.get(id) ?? existing.get(id)!.row
  await insertEdges(
    tx,
    jobs.map(({ id, dependencies }) => ({ row: rowOf(id), dependencies: dependencies.map(rowOf) })),
  )
  const made = await readJobs(
    tx,
    jobs.map(({ id }) => rowOf(id)),
  )
  const events = made.map(({ id, status, createdAt }) => jobEvent(id, status, createdAt))
  await logEvents(tx, now, events)
  return made
}

const refusalOf = (jobs: readonly NewJob[], existing: Known): JobRefusal | null => {
  const edges = new Map<string, readonly string[]>()
  for (const { id, dependencies } of jobs) {
    if (existing.has(id) || edges.has(id)) return { refused: "exists", id }
    edges.set(id, dependencies)
  }
  // One search for all: from something that depends on each of them.
  const { has_cycle, cycle_path } = detectCycle("", [...edges.keys()], edges)
  if (has_cycle) return { refused: "cycle", path: cycle_path }
  for (const { id, dependencies } of jobs) {
    const missing = dependencies.find((each) => !existing.has(each) && !edges.has(each))
    if (missing !== undefined) return { refused: "missing_dependency", id, dependency: missing }
  }
  return null
}

/** Of the new jobs and of what they depend on. */
const statusesOf = (jobs: readonly NewJob[], existing: Known): Map<string, JobStatus> => {
  const before = new Map([...existing].map(([id, { status }]) => [id, status]))
  const made = jobs.map(({ id, dependencies }) => ({ id, dependencies, status: waitingStatus(dependencies, before) }))
  const statuses = new Map<string, JobStatus>([...before, ...made.map(({ id, status }) => [id, status] as const)])
  for (const { id, status } of made)
    if (status === "BLOCKED") for (const below of propagateFailure(id, made)) statuses.set(below, "BLOCKED")
  return statuses
}

const INSERT = statement(
  "jobs_insert",
  `WITH new AS MATERIALIZED (
     SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::int[],
       $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[]) WITH ORDINALITY
     AS c (id, name, queue, lane, priority, status, task_status, upstream_pending, limits, error, concurrency_key, retry_policy,
       task, payload, n)
   ), row AS (
     INSERT INTO tasks (run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at)
     SELECT 0, 0, 0, id::text, 'task', task_status, upstream_pending, lane, priority, limits::bigint[], error,
       CASE WHEN task_status = 'skipped' THEN COALESCE($1::timestamptz, now()) END
     FROM new ORDER BY n
     RETURNING ${READINESS("tasks")}, path
   ), listed AS (
     ${ENQUEUE("row")}
   )
   INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload)
   SELECT r.id, n.id, n.name, n.queue, n.priority, n.status, COALESCE($1::timestamptz, now()), COALESCE($1::timestamptz, now()),
     n.concurrency_key, n.retry_policy, n.task, n.payload
   FROM new n JOIN row r ON r.path = n.id::text
   RETURNING task_id AS row, id`,
)

const BAD: ReadonlySet<JobStatus> = new Set(["FAILED", "BLOCKED"])

const insert = async (
  tx: SqlRunner,
  now: string | null,
  jobs: readonly NewJob[],
  statuses: ReadonlyMap<string, JobStatus>,
): Promise<Map<string, number>> => {
  // Rows are claimed in their order: among jobs of one call that is the order of their ids.
  const sorted = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const limits = await ensureLimits(tx, sorted.flatMap(jobLimits))
  const limitsOf = (job: NewJob): string | null => arrayParam(jobLimits(job).map(({ key }) => limits.get(key)!))
  const status = sorted.map(({ id }) => statuses.get(id)!)
  const guilty = sorted.map(({ dependencies }, i) =>
    status[i] === "BLOCKED" ? dependencies.find((id) => BAD.has(statuses.get(id)!))! : null,
  )
  const rows = await tx.run<{ row: number; id: string }>(INSERT, [
    now,
    arrayParam(sorted.map(({ id }) => id)),
    textArrayParam(sorted.map(({ name }) => name)),
    textArrayParam(sorted.map(({ queue }) => queue)),
    textArrayParam(sorted.map(jobLane)),
    arrayParam(sorted.map(({ priority }) => priority)),
    arrayParam(status),
    arrayParam(guilty.map((id) => (id === null ? "pending" : "skipped"))),
    arrayParam(sorted.map(({ dependencies }) => openOf(dependencies, statuses))),
    textArrayParam(sorted.map(limitsOf)),
    textArrayParam(guilty.map((id) => (id === null ? null : blockedBy(id)))),
    textArrayParam(sorted.map(({ concurrencyKey }) => concurrencyKey)),
    textArrayParam(sorted.map(({ retryPolicy }) => JSON.stringify(retryPolicy))),
    textArrayParam(sorted.map(({ task }) => (task === null ? null : JSON.stringify(task)))),
    textArrayParam(sorted.map(({ payload }) => JSON.stringify(payload))),
  ])
  return new Map(rows.map(({ row, id }) => [id, row]))
}
