// Records the successes of closed runs for the triggers of other workflows.

import type { Tx } from "../tx.ts"

const RECORD = `
INSERT INTO trigger_successes (trigger_id, upstream, run_id, logical_date, timezone)
SELECT t.id, w.name, r.id, r.logical_date, r.timezone
FROM runs r JOIN workflows w ON w.id = r.workflow_id
  JOIN trigger_upstreams u ON u.upstream = w.name JOIN triggers t ON t.id = u.trigger_id AND t.active = 1
WHERE r.seq = ? AND r.parent_run IS NULL ORDER BY t.id`

/** Records the success of a run for the triggers that wait for its workflow. Sub-workflows do not count: their parent run does. */
export const recordTriggerSuccess = (tx: Tx, runSeq: number): void => {
  tx.db.run(RECORD, runSeq)
}
