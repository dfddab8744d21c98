// When a job becomes available, and when it expires: a row of `deadlines`, which stays until it is due, also when the job has started
// before.

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
