// When a job becomes available, and when it expires: a row of `deadlines`, which stays until it is due, also when the job has started
// before. If a holder has claimed the job by then and not started it, the row stays as `passed`: the job expires when the claim is
// released.

import { IS_FIRST_CLAIM, JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

/** Returns SQL of the instant from which a new job is available; NULL: at once. */
export const AVAILABLE_AT = (runAt: string, delayMs: string): string =>
  `(SELECT a.at FROM (SELECT COALESCE(${runAt}, ${NOW} + ${delayMs} * interval '1 millisecond') AS at) a WHERE a.at > ${NOW})`

const SET = statement(
  "job_expiry_set",
  `INSERT INTO deadlines (task_id, at)
   SELECT j.task_id, COALESCE(t.available_at, ${NOW}) + j.expires_ms * interval '1 millisecond'
   FROM unnest(:rows::bigint[]) AS r (id) JOIN jobs j ON j.task_id = r.id JOIN tasks t ON t.id = r.id WHERE j.expires_ms IS NOT NULL
     AND t.status = 'pending' AND t.upstream_pending = 0
   ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = false`,
)

/** Sets when those of these jobs expire that are READY and have an expiry. */
export const setExpiry = async (tx: SqlRunner, rows: readonly number[]): Promise<void> => {
  if (rows.length > 0) await tx.run(SET, { rows })
}

const DELETE = statement("job_expiry_delete", "DELETE FROM deadlines WHERE task_id = :row")

export const deleteExpiry = (tx: SqlRunner, row: number): Promise<unknown> => tx.run(DELETE, { row })

/** The row `t` is a job whose first claim is released after its expiry. */
export const IS_RELEASED_LATE = `t.run_seq = ${JOB_RUN_SEQ} AND ${IS_FIRST_CLAIM} AND EXISTS (
  SELECT 1 FROM deadlines d WHERE d.task_id = t.id AND (d.passed OR d.at <= ${NOW}))`

/** Sets the expiry of released jobs to now when it has passed. `released`: a set with run_seq and id. */
export const REPEAT_EXPIRY = (released: string): string =>
  `UPDATE deadlines d SET at = ${NOW}, passed = false FROM ${released} r WHERE d.task_id = r.id AND r.run_seq = ${JOB_RUN_SEQ} AND d.passed`
