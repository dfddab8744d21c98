// Creates jobs, all of a call or none. core/rules/job-plan.ts rejects them or plans their first state.

import { type JobPlan, planNewJobs, rejectNewJobs } from "../../../core/rules/job-plan.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { Tx } from "../tx.ts"
import type { JobRejection, JobRow, NewJob } from "../../contract/jobs.ts"
import { arrayParam } from "../connection/array-params.ts"
import { logEvents } from "../advance/event-log.ts"
import { findJobs, insertEdges, statusesOf } from "./dependencies.ts"
import { jobEvent } from "../../shared/events.ts"
import { readJobs } from "./reads.ts"
import { ensureLimits } from "../claim/limits.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

export const createJobs = async (tx: Tx, jobs: readonly NewJob[]): Promise<JobRow[] | JobRejection> => {
  if (jobs.length === 0) return []
  const ids = [...jobs.map(({ id }) => id), ...jobs.flatMap(({ dependencies }) => dependencies)]
  const existing = await findJobs(tx, ids)
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const rows = await insertJobs(tx, planNewJobs(jobs, statusesOf(existing)))
  const rowOf = (id: string): number => rows.get(id) ?? existing.get(id)!.row
  await insertEdges(
    tx,
    jobs.map(({ id, dependencies }) => ({ row: rowOf(id), dependencies: dependencies.map(rowOf) })),
  )
  const created = await readJobs(
    tx,
    jobs.map(({ id }) => rowOf(id)),
  )
  await logEvents(
    tx,
    created.map(({ id, status, createdAt }) => jobEvent(id, status, { at: createdAt })),
  )
  return created
}

const INSERT = statement(
  "jobs_insert",
  `WITH new AS MATERIALIZED (
     SELECT * FROM unnest(:ids::uuid[], :names::text[], :queues::text[], :lanes::text[], :priorities::smallint[],
       :statuses::text[], :rowStatuses::text[], :pendingCounts::int[], :limits::text[], :errors::text[], :concurrencyKeys::text[],
       :retryPolicies::text[], :tasks::text[], :payloads::text[]) WITH ORDINALITY
     AS c (id, name, queue, lane, priority,
       status, row_status, upstream_pending, limits, error, concurrency_key,
       retry_policy, task, payload, position)
   ), row AS (
     INSERT INTO tasks (run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at)
     SELECT 0, 0, 0, id::text, 'task', row_status, upstream_pending, lane, priority, limits::bigint[], error,
       CASE WHEN row_status = 'skipped' THEN ${NOW} END
     FROM new ORDER BY position
     RETURNING ${READINESS("tasks")}, path
   ), enqueued AS (
     ${insertInto("ready_queue", "row")}
   )
   INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload)
   SELECT r.id, n.id, n.name, n.queue, n.priority, n.status, ${NOW}, ${NOW},
     n.concurrency_key, n.retry_policy, n.task, n.payload
   FROM new n JOIN row r ON r.path = n.id::text
   RETURNING task_id AS row, id`,
)

/** Returns the rows of the inserted jobs by job id. */
const insertJobs = async (tx: Tx, planned: readonly { job: NewJob; plan: JobPlan }[]): Promise<Map<string, number>> => {
  const jobs = planned.map(({ job }) => job)
  const plans = planned.map(({ plan }) => plan)
  const limits = await ensureLimits(tx, jobs.flatMap(jobLimits))
  const limitsOf = (job: NewJob): string | null => arrayParam(jobLimits(job).map(({ key }) => limits.get(key)!))
  const rows = await tx.run<{ row: number; id: string }>(INSERT, {
    ids: jobs.map(({ id }) => id),
    names: jobs.map(({ name }) => name),
    queues: jobs.map(({ queue }) => queue),
    lanes: jobs.map(jobLane),
    priorities: jobs.map(({ priority }) => priority),
    statuses: plans.map(({ status }) => status),
    rowStatuses: plans.map(({ rowStatus }) => rowStatus),
    pendingCounts: plans.map(({ pending }) => pending),
    limits: jobs.map(limitsOf),
    errors: plans.map(({ error }) => error),
    concurrencyKeys: jobs.map(({ concurrencyKey }) => concurrencyKey),
    retryPolicies: jobs.map(({ retryPolicy }) => JSON.stringify(retryPolicy)),
    tasks: jobs.map(({ task }) => (task === null ? null : JSON.stringify(task))),
    payloads: jobs.map(({ payload }) => JSON.stringify(payload)),
  })
  return new Map(rows.map(({ row, id }) => [id, row]))
}
