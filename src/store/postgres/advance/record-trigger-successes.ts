// Records the successes of closed runs for the triggers of other workflows.

import { type SqlRunner, statement } from "../connection/statement.ts"

const RECORD = statement(
  "triggers_record",
  `INSERT INTO trigger_successes (trigger_id, upstream, run_id, logical_date, timezone)
   SELECT t.id, w.name, r.id, r.logical_date, r.timezone
   FROM runs r JOIN workflows w ON w.id = r.workflow_id
     JOIN trigger_upstreams u ON u.upstream = w.name JOIN triggers t ON t.id = u.trigger_id AND t.active
   WHERE r.seq = ANY (:runs::bigint[]) AND r.parent_run IS NULL ORDER BY r.seq, t.id`,
)

/** Records the success of runs for the triggers that wait for their workflows. Sub-workflows do not count: their parent run does. */
export const recordTriggerSuccesses = async (tx: SqlRunner, runs: readonly number[]): Promise<void> => {
  if (runs.length > 0) await tx.run(RECORD, { runs })
}
