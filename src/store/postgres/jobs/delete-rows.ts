// Deletes the task rows of jobs.

import { ENTRY, deleteFrom } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const DELETE = statement(
  "job_rows_delete",
  `WITH deleted_attempts AS (DELETE FROM attempts WHERE task_id = ANY (:rows::bigint[])), deleted_expiry AS (
     DELETE FROM deadlines WHERE task_id = ANY (:rows::bigint[])
   ), deleted_steps AS (
     DELETE FROM steps WHERE task_id = ANY (:rows::bigint[])
   ), deleted AS (
     DELETE FROM tasks t WHERE t.id = ANY (:rows::bigint[]) RETURNING ${ENTRY("t")}
   )
   ${deleteFrom("ready_queue", "deleted")}`,
)

/** Deletes the task rows of deleted jobs that have no attempt in flight. */
export const deleteRows = async (tx: SqlRunner, rows: readonly number[]): Promise<void> => {
  if (rows.length > 0) await tx.run(DELETE, { rows })
}
