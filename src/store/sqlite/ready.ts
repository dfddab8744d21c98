/** What can be claimed: the condition of the index `tasks_ready`. */
export const READY =
  "status = 'pending' AND attempt_id IS NULL AND upstream_left = 0 AND parked IS NULL AND available_at IS NULL"
