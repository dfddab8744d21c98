// Expiry of jobs: a job that has not started some time after it became available fails.

import { JOB_EXPIRED } from "../../../core/rules/messages.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { type EventJob, jobEvent } from "../../shared/events.ts"
import { HAS_NOT_STARTED, IS_FIRST_CLAIM } from "../../shared/job-rows.ts"
import { deleteFrom, ENTRY } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import { dependentEvents, propagateFinishes } from "./dependents.ts"

/** Leaves rows that another transaction has locked to a later turn. */
const EXPIRE = statement(
  "jobs_expire",
  `WITH due AS MATERIALIZED (
     SELECT t.id, ${IS_FIRST_CLAIM} AS is_first_claim FROM tasks t WHERE t.id = ANY (:rows::bigint[])
     ORDER BY t.id FOR UPDATE SKIP LOCKED
   ), claimed AS (
     UPDATE deadlines d SET at = NULL, passed = true FROM due WHERE d.task_id = due.id AND due.is_first_claim
   ), cleared AS (
     DELETE FROM deadlines d USING due WHERE d.task_id = due.id AND NOT due.is_first_claim
   ), expired AS (
     UPDATE tasks t SET status = 'failed', error = :error, finished_at = ${NOW}, parked = NULL, available_at = NULL
     FROM due WHERE t.id = due.id AND ${HAS_NOT_STARTED}
     RETURNING ${ENTRY("t")}, t.limits
   ), dequeued AS (
     ${deleteFrom("ready_queue", "expired")}
   )
   UPDATE jobs j SET status = 'FAILED', updated_at = ${NOW} FROM expired e WHERE j.task_id = e.id
   RETURNING j.id, j.name, j.queue, j.task_id AS row, e.limits, ${NOW}::timestamptz(3) AS at`,
)

export interface ExpiredJobs {
  /** Limits of each expired job, which used no slots. */
  limits: (number[] | null)[]
  events: StoreEvent[]
}

export const NOTHING_EXPIRED: ExpiredJobs = { limits: [], events: [] }

/** Fails those of these jobs that have not started. */
export const expireJobs = async (tx: SqlRunner, rows: readonly number[]): Promise<ExpiredJobs> => {
  if (rows.length === 0) return NOTHING_EXPIRED
  type Row = EventJob & { row: number; limits: number[] | null; at: string }
  const expired = (await tx.run<Row>(EXPIRE, { rows, error: JOB_EXPIRED })).toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const dependents = await propagateFinishes(tx, { completed: [], failed: expired.map(({ row }) => row) })
  const events = expired.map((job) => jobEvent(job, "FAILED", { at: job.at, error: JOB_EXPIRED }))
  const at = expired[0]?.at ?? ""
  return { limits: expired.map(({ limits }) => limits), events: [...events, ...dependentEvents(dependents, at)] }
}
