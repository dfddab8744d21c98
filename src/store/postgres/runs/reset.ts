// Setting rows back to before their first attempt, for a retry of the user and for an expansion that was done before. The
// attempt's number goes on; the attempt that the row still shows becomes history.

/** Columns as before the first attempt; `attempt` stays. */
export const FRESH = `status = 'pending', skip_reason = NULL, attempt_id = NULL, holder = NULL, available_at = NULL, failures = 0,
  losses = 0, worker = NULL, external_id = NULL, dispatched_at = NULL, started_at = NULL, finished_at = NULL, output = NULL,
  output_key = NULL, output_bytes = NULL, error = NULL, exit_code = NULL, usage = NULL, outcome = NULL, progress = NULL`

/** Of a container: before the first of its children was made. */
export const CHILDLESS = "children_created = 0, children_total = NULL, children_pending = NULL, children_failed = 0"

/** Follow with a set of task rows and its alias `t`. */
export const SUPERSEDE_FROM = `INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error,
  usage, dispatched_at, started_at, finished_at)
SELECT t.id, t.attempt, t.attempt_id, t.outcome, t.worker, t.external_id, t.exit_code, t.error, t.usage, t.dispatched_at,
  t.started_at, t.finished_at
FROM`

/** Which of those rows show an attempt. */
export const SHOWS_ATTEMPT = "t.attempt_id IS NOT NULL AND t.outcome IS NOT NULL"

/** Follow with GROUP BY or nothing; takes ended instances `t` out of a run's counts. */
export const COUNTS = `count(*)::int AS total, (count(*) FILTER (WHERE t.status = 'success'))::int AS success,
  (count(*) FILTER (WHERE t.status = 'failed'))::int AS failed, (count(*) FILTER (WHERE t.status = 'skipped'))::int AS skipped,
  (count(*) FILTER (WHERE t.status = 'cancelled'))::int AS cancelled`

export const UNCOUNT = `tasks_success = r.tasks_success - o.success, tasks_failed = r.tasks_failed - o.failed,
  tasks_skipped = r.tasks_skipped - o.skipped, tasks_cancelled = r.tasks_cancelled - o.cancelled`
