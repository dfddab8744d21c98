// Creates jobs, all of a call or none. core/rules/job-plan.ts rejects them or plans their first state.

import { type JobPlan, planNewJobs, rejectNewJobs } from "../../../core/rules/job-plan.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { Tx } from "../tx.ts"
import type { JobRejection, JobRow, NewJob } from "../../contract/jobs.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { logEvents } from "../advance/event-log.ts"
import { holdKnown, insertEdges, statusesOf } from "./dependencies.ts"
import { jobEvent } from "./edges.ts"
import { readJobs } from "./reads.ts"
import { ensureLimits } from "../claim/limits.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

export const createJobs = async (tx: Tx, now: string | null, jobs: readonly NewJob[]): Promise<JobRow[] | JobRejection> => {
  if (jobs.length === 0) return []
  const ids = [...jobs.map(({ id }) => id), ...jobs.flatMap(({ dependencies }) => dependencies)]
  const existing = await holdKnown(tx, ids)
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const rows = await insert(tx, now, planNewJobs(jobs, statusesOf(existing)))
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
  await logEvents(tx, events)
  return made
}

const INSERT = statement(
  "jobs_insert",
  `WITH new AS MATERIALIZED (
     SELECT * FROM unnest(:ids::uuid[], :names::text[], :queues::text[], :lanes::text[], :priorities::smallint[], :statuses::text[], :rowStatuses::text[], :upstreamPendings::int[],
       :limits::text[], :errors::text[], :concurrencyKeys::text[], :retryPolicies::text[], :tasks::text[], :payloads::text[]) WITH ORDINALITY
     AS c (id, name, queue, lane, priority, status, task_status, upstream_pending, limits, error, concurrency_key, retry_policy,
       task, payload, n)
   ), row AS (
     INSERT INTO tasks (run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at)
     SELECT 0, 0, 0, id::text, 'task', task_status, upstream_pending, lane, priority, limits::bigint[], error,
       CASE WHEN task_status = 'skipped' THEN COALESCE(:now::timestamptz, now()) END
     FROM new ORDER BY n
     RETURNING ${READINESS("tasks")}, path
   ), listed AS (
     ${insertInto("ready_queue", "row")}
   )
   INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload)
   SELECT r.id, n.id, n.name, n.queue, n.priority, n.status, COALESCE(:now::timestamptz, now()), COALESCE(:now::timestamptz, now()),
     n.concurrency_key, n.retry_policy, n.task, n.payload
   FROM new n JOIN row r ON r.path = n.id::text
   RETURNING task_id AS row, id`,
)

const insert = async (
  tx: SqlRunner,
  now: string | null,
  planned: readonly { job: NewJob; plan: JobPlan }[],
): Promise<Map<string, number>> => {
  const jobs = planned.map(({ job }) => job)
  const plans = planned.map(({ plan }) => plan)
  const limits = await ensureLimits(tx, jobs.flatMap(jobLimits))
  const limitsOf = (job: NewJob): string | null => arrayParam(jobLimits(job).map(({ key }) => limits.get(key)!))
  const rows = await tx.run<{ row: number; id: string }>(INSERT, {
    now,
    ids: arrayParam(jobs.map(({ id }) => id)),
    names: textArrayParam(jobs.map(({ name }) => name)),
    queues: textArrayParam(jobs.map(({ queue }) => queue)),
    lanes: textArrayParam(jobs.map(jobLane)),
    priorities: arrayParam(jobs.map(({ priority }) => priority)),
    statuses: arrayParam(plans.map(({ status }) => status)),
    rowStatuses: arrayParam(plans.map(({ rowStatus }) => rowStatus)),
    upstreamPendings: arrayParam(plans.map(({ pending }) => pending)),
    limits: textArrayParam(jobs.map(limitsOf)),
    errors: textArrayParam(plans.map(({ error }) => error)),
    concurrencyKeys: textArrayParam(jobs.map(({ concurrencyKey }) => concurrencyKey)),
    retryPolicies: textArrayParam(jobs.map(({ retryPolicy }) => JSON.stringify(retryPolicy))),
    tasks: textArrayParam(jobs.map(({ task }) => (task === null ? null : JSON.stringify(task)))),
    payloads: textArrayParam(jobs.map(({ payload }) => JSON.stringify(payload))),
  })
  return new Map(rows.map(({ row, id }) => [id, row]))
}
