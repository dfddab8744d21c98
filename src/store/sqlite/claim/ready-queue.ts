/** For indexes that have the priority before the run: every one that a task can have. */
export const ANY_PRIORITY = "priority IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"

/** What can be claimed: the condition of the index `tasks_ready`. */
export const READY =
  "status = 'pending' AND attempt_id IS NULL AND upstream_pending = 0 AND parked IS NULL AND available_at IS NULL"
