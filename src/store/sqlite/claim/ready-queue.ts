// Conditions on the partial indexes of ready and parked rows.

/** Condition of the index `tasks_ready`: the row can be claimed. */
export const READY =
  "status = 'pending' AND attempt_id IS NULL AND upstream_pending = 0 AND parked IS NULL AND available_at IS NULL"

/** All priorities of tasks: lets a statement use an index whose priority comes before the run. */
export const ANY_PRIORITY = "priority IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"
