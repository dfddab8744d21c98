// Requests to stop attempts in flight: of jobs that were cancelled or deleted, and of groups past their timeout. Their holder gets them
// with each turn (`readPendingWork`) until they have ended.

import { type SqlRunner, statement } from "../connection/statement.ts"

const ADD = statement(
  "stop_requests_add",
  `INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT id, attempt_id, holder FROM tasks WHERE id = :row::bigint
   ON CONFLICT DO NOTHING`,
)

export const requestStop = (tx: SqlRunner, row: number): Promise<unknown> => tx.run(ADD, { row })

const REMOVE = statement("stop_requests_remove", "DELETE FROM stop_requests WHERE task_id = ANY (:rows::bigint[])")

export const deleteStopRequests = (tx: SqlRunner, rows: readonly number[]): Promise<unknown> => tx.run(REMOVE, { rows })
