// SQL fragments that reset rows to the state before their first attempt, for a retry of a run and for repeated expansions. The
// attempt number continues; the last attempt moves to the history.

import { TX_TASK_STEP } from "../../../core/model/function.ts"
import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"

/** Assignments for the state before the first attempt. `attempt` stays. */
export const RESET_COLUMNS = `
  status = 'pending', skip_reason = NULL, attempt_id = NULL, holder = NULL, available_at = NULL, failures = 0, losses = 0, worker = NULL,
  external_id = NULL, dispatched_at = NULL, started_at = NULL, finished_at = NULL, output = NULL, output_key = NULL,
  output_bytes = NULL, error = NULL, exit_code = NULL, usage = NULL, last_attempt_state = NULL, progress = NULL`

/** Limits of a row without that of its concurrency key, which may be removed: the gate puts the row under it again. */
export const OWN_LIMITS = `(
  SELECT nullif(json_group_array(l.id), '[]') FROM json_each(tasks.limits) j JOIN limits l ON l.id = j.value
  WHERE l.key NOT GLOB '${LIMIT_PREFIX.key}*')`

/** Assignments for a container without children. */
export const CHILDLESS = "children_created = 0, children_total = NULL, children_pending = NULL, children_failed = 0"

/** Copies the last attempts of task rows to the history. A condition on `tasks` must follow. */
export const SUPERSEDE_WHERE = `
INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at,
  finished_at)
SELECT id, attempt, attempt_id, last_attempt_state, worker, external_id, exit_code, error, usage, dispatched_at, started_at, finished_at
FROM tasks WHERE attempt_id IS NOT NULL AND last_attempt_state IS NOT NULL AND`

/**
 * Deletes the results of transactions of tasks (`txTask`) that were successful and run again. A durable function keeps its steps. A condition on
 * `tasks` must follow, and a parenthesis.
 */
export const FORGET_TRANSACTIONS_WHERE = `
DELETE FROM steps WHERE kind = 'tx' AND name = '${TX_TASK_STEP}' AND task_id IN (SELECT id FROM tasks WHERE status = 'success' AND`
