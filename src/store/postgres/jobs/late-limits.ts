// Limits of jobs that a user's transaction has created. It does not create them itself, because other transactions with the same keys
// would wait for its commit: such a job has the limits '{}' and waits for a timer, which puts it under its limits.

import { MAX_DUE } from "../../shared/bounds.ts"
import { limitsOfJob } from "../../shared/job-rows.ts"
import { ensureLimits } from "../claim/limits.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { arrayParam } from "../connection/array-params.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"

/** Condition: the limits of the row are not created. */
export const WITHOUT_LIMITS = "limits = '{}'::bigint[]"

const FIND = statement(
  "jobs_without_limits",
  `SELECT t.id AS row, j.queue, j.concurrency_key AS "concurrencyKey", j.settings FROM tasks t JOIN jobs j ON j.task_id = t.id
   WHERE t.available_at <= ${NOW} AND t.${WITHOUT_LIMITS} ORDER BY t.available_at LIMIT ${MAX_DUE} FOR UPDATE OF t SKIP LOCKED`,
)

const SET = statement(
  "jobs_set_limits",
  `WITH row AS (
     UPDATE tasks t SET limits = c.limits::bigint[], available_at = NULL FROM unnest(:rows::bigint[], :limits::text[]) AS c (id, limits)
     WHERE t.id = c.id RETURNING ${READINESS("t")}
   )
   ${insertInto("ready_queue", "row")} RETURNING id`,
)

interface JobWithoutLimits {
  row: number
  queue: string
  concurrencyKey: string | null
  settings: string | null
}

/** Sends its statement before it returns. */
export const findWithoutLimits = (tx: Tx): Promise<JobWithoutLimits[]> => tx.run<JobWithoutLimits>(FIND)

/** Puts the jobs under their limits. Returns how many became ready. */
export const setLimits = async (tx: Tx, jobs: readonly JobWithoutLimits[]): Promise<number> => {
  if (jobs.length === 0) return 0
  const limits = jobs.map(limitsOfJob)
  const ids = await ensureLimits(tx, limits.flat())
  const ready = await tx.run(SET, {
    rows: jobs.map(({ row }) => row),
    limits: limits.map((ofJob) => arrayParam(ofJob.map(({ key }) => ids.get(key)!))),
  })
  return ready.length
}
