// Effects of finished jobs on the jobs that depend on them. The statements implement `propagateCompletion` and `propagateFailure` of
// core/rules/jobs/published.ts; the conformance suite checks that they agree. Dependents are locked in order of their ids, so that two
// transactions above the same job cannot deadlock.

import { type EventJob, jobEvent } from "../../shared/events.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { blockedBy } from "../../../core/rules/messages.ts"
import { setExpiry } from "./times.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

/**
 * All pending dependents of the failed jobs, direct or not, each with the job that blocks it, nearest first. Looks rows up one by one:
 * a free join may read all of `tasks`.
 */
const BELOW = `below (id, blocked_by) AS (
     SELECT e.dependent, e.dependency FROM unnest(:failed::bigint[]) AS f (id) JOIN job_edges e ON e.dependency = f.id
     UNION
     SELECT e.dependent, e.dependency FROM below b
     CROSS JOIN LATERAL (SELECT 1 FROM tasks WHERE id = b.id AND status = 'pending' AND upstream_pending > 0 OFFSET 0) t
     CROSS JOIN LATERAL (SELECT dependent, dependency FROM job_edges WHERE dependency = b.id OFFSET 0) e
   )`

const LOCK = statement(
  "job_edges_lock",
  `WITH RECURSIVE ${BELOW}
   SELECT id, run_seq FROM tasks WHERE id IN (
     SELECT id FROM below UNION SELECT dependent FROM job_edges WHERE dependency = ANY (:completed::bigint[])
   ) ORDER BY id FOR UPDATE`,
)

/** Starting a recursive query costs more than the rest of such a turn: 6 µs per completed job. */
const LOCK_OF_COMPLETED = statement(
  "job_edges_lock_completed",
  `SELECT id, run_seq FROM tasks
   WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ANY (:completed::bigint[])) ORDER BY id FOR UPDATE`,
)

const COMPLETE = statement(
  "job_edges_complete",
  `WITH counted AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - e.completed
     FROM (SELECT dependent, count(*)::int AS completed FROM job_edges WHERE dependency = ANY (:rows::bigint[]) GROUP BY dependent) e
     WHERE t.id = e.dependent AND t.status = 'pending' AND t.upstream_pending > 0
     RETURNING ${READINESS("t")}, t.upstream_pending
   ), enqueued AS (
     ${insertInto("ready_queue", "counted")}
   )
   UPDATE jobs j SET status = 'READY', updated_at = ${NOW}
   FROM counted c WHERE c.upstream_pending = 0 AND j.task_id = c.id RETURNING j.id, j.name, j.queue, j.task_id AS row, j.expires_ms IS NOT NULL AS expires`,
)

/** Stands for the id of a job in the text of an error, until SQL replaces it. */
const JOB_ID_PLACEHOLDER = "{job}"

const BLOCK = statement(
  "job_edges_block",
  `WITH RECURSIVE ${BELOW}, nearest AS (
     SELECT DISTINCT ON (id) id, blocked_by, position
     FROM (SELECT id, blocked_by, row_number() OVER () AS position FROM below) b ORDER BY id, position
   ), blocked AS (
     UPDATE tasks t SET status = 'skipped', error = replace(:message, '${JOB_ID_PLACEHOLDER}', upstream.id::text), parked = NULL,
       available_at = NULL, finished_at = ${NOW}
     FROM nearest n JOIN jobs upstream ON upstream.task_id = n.blocked_by
     WHERE t.id = n.id AND t.status = 'pending' AND t.upstream_pending > 0
     RETURNING t.id, t.error, n.position
   ), updated AS (
     UPDATE jobs j SET status = 'BLOCKED', updated_at = ${NOW}
     FROM blocked b WHERE j.task_id = b.id RETURNING j.id, j.name, j.queue, b.error, b.position
   )
   SELECT id, name, queue, error FROM updated ORDER BY position, id`,
)

/** Status changes of dependents. */
export interface DependentChanges {
  /** Jobs whose last dependency has completed. */
  ready: EventJob[]
  blocked: (EventJob & { error: string })[]
}

const NOTHING: DependentChanges = { ready: [], blocked: [] }

/** Rows of finished jobs. */
export interface FinishedJobs {
  completed: readonly number[]
  failed: readonly number[]
}

/** Dependents of finished jobs: jobs, and tasks of runs (callers). */
type LockedDependents = readonly { id: number; run_seq: number }[]

/**
 * Locks all dependents. Repeats until no new ones appear: jobs may be added while a lock is awaited. Sends its statement before it
 * returns.
 */
export const lockDependents = async (tx: SqlRunner, { completed, failed }: FinishedJobs): Promise<LockedDependents> => {
  if (completed.length + failed.length === 0) return []
  if (failed.length === 0) return tx.run<LockedDependents[number]>(LOCK_OF_COMPLETED, { completed })
  for (let before = ""; ;) {
    const rows = await tx.run<LockedDependents[number]>(LOCK, { failed, completed })
    const locked = rows.map(({ id }) => id).join()
    if (locked === before) return rows
    before = locked
  }
}

/**
 * Unblocks the dependents of completed jobs and blocks those of failed jobs, direct or not, in this transaction, so that no reader
 * sees them as PENDING.
 */
export const propagateFinishes = async (
  tx: SqlRunner,
  { completed, failed }: FinishedJobs,
  locking = lockDependents(tx, { completed, failed }),
): Promise<DependentChanges> => {
  const locked = await locking
  if (locked.length === 0) return NOTHING
  const unblocked =
    completed.length === 0 ? [] : tx.run<EventJob & { row: number; expires: boolean }>(COMPLETE, { rows: completed })
  const message = blockedBy(JOB_ID_PLACEHOLDER)
  const blocked = failed.length === 0 ? [] : tx.run<EventJob & { error: string }>(BLOCK, { failed, message })
  // The rows of callers are locked too: they are dependents.
  if (locked.some(({ run_seq }) => !isJobRow(run_seq))) await tx.run(RESUME_CALLERS, { rows: [...completed, ...failed] })
  const unblockedJobs = await unblocked
  await setExpiry(
    tx,
    unblockedJobs.filter(({ expires }) => expires).map(({ row }) => row),
  )
  const ready = unblockedJobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return { ready, blocked: await blocked }
}

const RESUME_CALLERS = statement(
  "job_callers_resume",
  `WITH removed_call_edges AS (
     DELETE FROM job_edges e USING tasks t WHERE e.dependency = ANY (:rows::bigint[]) AND t.id = e.dependent AND t.run_seq <> 0
     RETURNING e.dependent
   )
   UPDATE tasks t SET resume_requests = COALESCE(t.resume_requests, 0) + c.finished,
     resume_at = CASE WHEN t.waiting_on IS NOT NULL AND t.parked IS NULL THEN ${NOW} ELSE t.resume_at END
   FROM (SELECT dependent, count(*)::int AS finished FROM removed_call_edges GROUP BY dependent) c WHERE t.id = c.dependent`,
)

export const dependentEvents = ({ ready, blocked }: DependentChanges, at: string): StoreEvent[] => [
  ...ready.map((job) => jobEvent(job, "READY", { at })),
  ...blocked.map((job) => jobEvent(job, "BLOCKED", { at, error: job.error })),
]
