// SQL fragments that reset rows to the state before their first attempt, for a retry of a run and for repeated expansions. The
// attempt number continues; the last attempt moves to the history.

import { TX_TASK_STEP } from "../../../core/model/function.ts"
import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"

/** Assignments for the state before the first attempt. `attempt` stays. */
export const RESET_COLUMNS = `status = 'pending', skip_reason = NULL, attempt_id = NULL, holder = NULL, available_at = NULL, failures = 0,
  losses = 0, worker = NULL, external_id = NULL, dispatched_at = NULL, started_at = NULL, finished_at = NULL, output = NULL,
  output_key = NULL, output_bytes = NULL, error = NULL, exit_code = NULL, usage = NULL, last_attempt_state = NULL, progress = NULL`

/** Limits of the row `t` without that of its concurrency key, which may be removed: the gate puts the row under it again. */
export const OWN_LIMITS = `NULLIF(ARRAY(
    SELECT l.id FROM limits l WHERE l.id = ANY (t.limits) AND NOT starts_with(l.key, '${LIMIT_PREFIX.key}') ORDER BY l.id
  ), '{}')`

/** Assignments for a container without children. */
export const CHILDLESS = "children_created = 0, children_total = NULL, children_pending = NULL, children_failed = 0"

/** Copies the last attempts of task rows to the history. A set of task rows with the alias `t` must follow. */
export const SUPERSEDE_FROM = `INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error,
  usage, dispatched_at, started_at, finished_at)
SELECT t.id, t.attempt, t.attempt_id, t.last_attempt_state, t.worker, t.external_id, t.exit_code, t.error, t.usage, t.dispatched_at,
  t.started_at, t.finished_at
FROM`

/** Condition: the step `s` is the transaction of a task whose success, in the row `r`, is replaced: it runs again. */
export const IS_REPLACED_TRANSACTION = `r.status = 'success' AND s.kind = 'tx' AND s.name = '${TX_TASK_STEP}'`

/** Deletes the results of transactions of task rows that run again, a set. A durable function keeps its steps. */
export const FORGET_TRANSACTIONS = (rows: string): string =>
  `DELETE FROM steps s USING ${rows} r WHERE s.task_id = r.id AND ${IS_REPLACED_TRANSACTION}`

/** Condition: the row `t` has an attempt to copy. */
export const HAS_ATTEMPT = "t.attempt_id IS NOT NULL AND t.last_attempt_state IS NOT NULL"

/** Columns that count finished task rows `t` by status. `UNCOUNT` subtracts them from the counts of the run `r`. */
export const COUNTS = `count(*)::int AS total, (count(*) FILTER (WHERE t.status = 'success'))::int AS success,
  (count(*) FILTER (WHERE t.status = 'failed'))::int AS failed, (count(*) FILTER (WHERE t.status = 'skipped'))::int AS skipped,
  (count(*) FILTER (WHERE t.status = 'cancelled'))::int AS cancelled`

export const UNCOUNT = `tasks_success = r.tasks_success - o.success, tasks_failed = r.tasks_failed - o.failed,
  tasks_skipped = r.tasks_skipped - o.skipped, tasks_cancelled = r.tasks_cancelled - o.cancelled`
