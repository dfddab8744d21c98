// What the ends of jobs do to those that depend on them: the rules of core/rules/jobs.ts (`propagateCompletion`, `propagateFailure`) as
// statements, held to them by the conformance suite. Rows below are locked in order of id first, so that two ends above the
// same job cannot wait for each other.

import type { JobStatus } from "../../../core/rules/jobs.ts"
import { NO_RUN } from "../../shared/event-codec.ts"
import { blockedBy } from "../../../core/rules/messages.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { anyParam } from "../connection/array-params.ts"
import { ENTRY, insertInto, READINESS, deleteFrom } from "../claim/ready-queue.ts"
import { STAND_IN } from "../runs/insert-rows.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"

/** All waiting dependents of the failed jobs, each with the job that blocks it, nearest first. */
const BELOW = `below (id, by) AS (
     SELECT e.dependent, e.dependency FROM unnest(:failed::bigint[]) AS f (id) JOIN job_edges e ON e.dependency = f.id
     UNION
     SELECT e.dependent, e.dependency FROM below b
     JOIN tasks t ON t.id = b.id AND t.status = 'pending' AND t.upstream_pending > 0
     JOIN job_edges e ON e.dependency = b.id
   )`

const LOCK = statement(
  "job_edges_lock",
  `WITH RECURSIVE ${BELOW}
   SELECT id FROM tasks WHERE id IN (
     SELECT id FROM below UNION SELECT dependent FROM job_edges WHERE dependency = ANY (:completed::bigint[])
   ) ORDER BY id FOR UPDATE`,
)

const COMPLETE = statement(
  "job_edges_complete",
  `WITH counted AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - e.ended
     FROM (SELECT dependent, count(*)::int AS ended FROM job_edges WHERE dependency = ANY (:rows::bigint[]) GROUP BY dependent) e
     WHERE t.id = e.dependent AND t.status = 'pending' AND t.upstream_pending > 0
     RETURNING ${READINESS("t")}, t.upstream_pending
   ), listed AS (
     ${insertInto("ready_queue", "counted")}
   )
   UPDATE jobs j SET status = 'READY', updated_at = COALESCE(:now::timestamptz, now())
   FROM counted c WHERE c.upstream_pending = 0 AND j.task_id = c.id RETURNING j.id`,
)

const BLOCK = statement(
  "job_edges_block",
  `WITH RECURSIVE ${BELOW}, doomed AS (
     SELECT DISTINCT ON (id) id, by, n FROM (SELECT id, by, row_number() OVER () AS n FROM below) b ORDER BY id, n
   ), blocked AS (
     UPDATE tasks t SET status = 'skipped', error = replace(:message, '${STAND_IN}', u.id::text), parked = NULL,
       finished_at = COALESCE(:now::timestamptz, now())
     FROM doomed d JOIN jobs u ON u.task_id = d.by WHERE t.id = d.id AND t.status = 'pending' AND t.upstream_pending > 0
     RETURNING t.id, t.error, d.n
   ), moved AS (
     UPDATE jobs j SET status = 'BLOCKED', updated_at = COALESCE(:now::timestamptz, now())
     FROM blocked b WHERE j.task_id = b.id RETURNING j.id, b.error, b.n
   )
   SELECT id, error FROM moved ORDER BY n, id`,
)

export interface Released {
  /** Jobs whose last dependency has completed. */
  ready: string[]
  blocked: { id: string; error: string }[]
}

const NOTHING: Released = { ready: [], blocked: [] }

/** Locks all dependents. Repeats until no new ones appear: jobs may be added while a lock is awaited. */
const lockBelow = async (tx: SqlRunner, failed: readonly number[], completed: readonly number[]): Promise<void> => {
  for (let held = ""; ;) {
    const found = anyParam(
      (await tx.run<{ id: number }>(LOCK, { failed: anyParam(failed), completed: anyParam(completed) })).map(({ id }) => id),
    )
    if (failed.length === 0 || found === held || found === NONE) return
    held = found
  }
}

const NONE = anyParam([])

/** Rows of jobs that ended. Nobody sees a job wait for one that will never complete: all the way down, in this transaction. */
export const releaseDependents = async (
  tx: SqlRunner,
  now: string | null,
  { completed, failed }: { completed: readonly number[]; failed: readonly number[] },
): Promise<Released> => {
  if (completed.length + failed.length === 0) return NOTHING
  const locked = pipelined(lockBelow(tx, failed, completed))
  if (failed.length > 0) await locked
  const freed = completed.length === 0 ? [] : tx.run<{ id: string }>(COMPLETE, { now, rows: anyParam(completed) })
  const doomed =
    failed.length === 0
      ? []
      : tx.run<{ id: string; error: string }>(BLOCK, { failed: anyParam(failed), now, message: blockedBy(STAND_IN) })
  await locked
  const ready = (await freed).map(({ id }) => id).toSorted()
  return { ready, blocked: await doomed }
}

const FORGET = statement(
  "jobs_forget",
  `WITH past AS (DELETE FROM attempts WHERE task_id = ANY (:rows::bigint[])), gone AS (
     DELETE FROM tasks t WHERE t.id = ANY (:rows::bigint[]) RETURNING ${ENTRY("t")}
   )
   ${deleteFrom("ready_queue", "gone")}`,
)

/** The rows of jobs that are deleted and, if they were live, dead. */
export const forgetJobs = async (tx: SqlRunner, rows: readonly number[]): Promise<void> => {
  if (rows.length > 0) await tx.run(FORGET, { rows: anyParam(rows) })
}

export const jobEvent = (
  id: string,
  status: JobStatus,
  at: string,
  told: { error?: string | null | undefined; availableAt?: string | null | undefined } = {},
): StoreEvent => ({
  type: "job",
  runId: NO_RUN,
  jobId: id,
  status,
  at,
  ...(told.error !== undefined && told.error !== null && { error: told.error }),
  ...(told.availableAt !== undefined && told.availableAt !== null && { availableAt: told.availableAt }),
})

export const emitReleased = ({ ready, blocked }: Released, at: string): StoreEvent[] => [
  ...ready.map((id) => jobEvent(id, "READY", at)),
  ...blocked.map(({ id, error }) => jobEvent(id, "BLOCKED", at, { error })),
]
