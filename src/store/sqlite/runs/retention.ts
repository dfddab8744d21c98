// Deletes finished runs in small transactions, and limits that are not used any more.

import type { RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"
import { Conflict } from "../../contract/errors.ts"
import { MESSAGE_MS } from "../../shared/bounds.ts"
import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { QUEUES_OF_JOBS } from "../admin/queues.ts"
import { startPendingRuns } from "../advance/close-runs.ts"
import { BACKLOG_JOBS } from "../jobs/backlog.ts"
import type { StoreContext, Tx } from "../tx.ts"

/** Condition: a task or durable function waits for the run `r` and has not seen its end. */
const IS_AWAITED = `EXISTS (
  SELECT 1 FROM tasks t WHERE t.id = r.parent_row AND t.finished_at IS NULL AND (instr(t.waiting_on, r.id) > 0 OR EXISTS (
    SELECT 1 FROM steps s WHERE s.task_id = t.id AND s.state = 'waiting' AND instr(s.details, r.id) > 0)))`

const OLD_OR_BEYOND_KEEP = `
SELECT id FROM (
  SELECT id, finished_at, parent_row, row_number() OVER (PARTITION BY workflow_id ORDER BY seq DESC) AS position
  FROM runs WHERE finished_at IS NOT NULL AND hooks_pending = 0) r
WHERE (finished_at < ?1 OR position > ?2) AND NOT ${IS_AWAITED} ORDER BY finished_at, id LIMIT ?3 + 0`

const OLDER = `
SELECT id FROM runs r WHERE finished_at IS NOT NULL AND hooks_pending = 0 AND finished_at < ? AND NOT ${IS_AWAITED} ORDER BY finished_at, id LIMIT ? + 0`

export const removableRuns = (
  context: StoreContext,
  query: { olderThanMs?: number; keep?: number; limit: number },
): RunId[] => {
  const before = query.olderThanMs === undefined ? "" : iso(context.clock.now() - query.olderThanMs)
  const found =
    query.keep === undefined
      ? context.db.all<[RunId]>(OLDER, before, query.limit)
      : context.db.all<[RunId]>(OLD_OR_BEYOND_KEEP, before, query.keep, query.limit)
  return found.map(([id]) => id)
}

const RUN = `
SELECT seq, finished_at IS NOT NULL AND hooks_pending = 0 AND (?2 IS NULL OR finished_at < ?2) FROM runs WHERE id = ?1`

const SOME = "SELECT id FROM tasks INDEXED BY tasks_of_run WHERE run_seq = ?1 ORDER BY id LIMIT ?2 + 0"

const REMOVE_ATTEMPTS = `DELETE FROM attempts WHERE task_id IN (${SOME})`

const REMOVE_STEPS = `DELETE FROM steps WHERE task_id IN (${SOME})`

const REMOVE_SIGNALS = `DELETE FROM signals WHERE task_id IN (${SOME})`

const REMOVE_TASKS = `DELETE FROM tasks WHERE id IN (${SOME})`

const REMOVE_LIMITS = `DELETE FROM limits WHERE key = '${LIMIT_PREFIX.run}' || ?1 OR key GLOB '${LIMIT_PREFIX.task}' || ?1 || ':*'`

const MARK = "UPDATE runs SET removing = 1 WHERE seq = ? AND removing = 0"

const REMOVE_PROBLEMS = "DELETE FROM notification_problems WHERE run_id = ?"

const REMOVE_RUN = "DELETE FROM runs WHERE seq = ? RETURNING workflow_id"

const FORGET_PREVIOUS = `
UPDATE runs INDEXED BY runs_after_previous SET previous_run = NULL WHERE previous_run = ? AND finished_at IS NULL`

const FORGET_MESSAGES = "DELETE FROM used_messages WHERE used_at < ?"

const KEEP_MESSAGE = `
INSERT INTO used_messages (key, used_at)
SELECT idempotency_key, ? FROM runs WHERE seq = ? AND "trigger" = 'webhook' AND idempotency_key IS NOT NULL AND created_at > ?
ON CONFLICT DO NOTHING`

const IS_USED = "SELECT 1 FROM used_messages WHERE key = ?"

export const isMessageUsed = (context: StoreContext, key: string): boolean => context.db.get(IS_USED, key) !== undefined

/**
 * Deletes up to `maxRows` task rows. A run that waits for the success of the deleted one may start. Returns whether the run is deleted;
 * otherwise the caller repeats the call.
 */
export const removeRun = (tx: Tx, runId: RunId, maxRows: number, endedBefore?: number): boolean => {
  const run = tx.db.get<[number, number]>(RUN, runId, endedBefore === undefined ? null : iso(endedBefore))
  if (run === undefined) return true
  const [seq, isFinished] = run
  if (isFinished === 0)
    throw new Conflict(`run ${runId} has not ended: cancel it and wait for it and its hooks before removing it`)
  for (const remove of [REMOVE_ATTEMPTS, REMOVE_STEPS, REMOVE_SIGNALS]) tx.db.run(remove, seq, maxRows)
  if (tx.db.run(REMOVE_TASKS, seq, maxRows) === maxRows) {
    tx.db.run(MARK, seq)
    return false
  }
  tx.db.run(FORGET_MESSAGES, tx.iso(tx.now - MESSAGE_MS))
  tx.db.run(KEEP_MESSAGE, tx.at, seq, tx.iso(tx.now - MESSAGE_MS))
  tx.db.run(REMOVE_LIMITS, runId)
  tx.db.run(REMOVE_PROBLEMS, runId)
  const [workflowId] = tx.db.get<[number]>(REMOVE_RUN, seq)!
  if (tx.db.run(FORGET_PREVIOUS, runId) > 0) startPendingRuns(tx, workflowId)
  return true
}

/** Deletes limits of concurrency keys under which no unfinished row is. A blocked job may become ready again. */
const TRIM_LIMITS = `
DELETE FROM limits WHERE id IN (
  SELECT id FROM limits WHERE key GLOB '${LIMIT_PREFIX.key}*' AND used = 0 AND id NOT IN (
    SELECT l.value FROM runs r CROSS JOIN tasks t INDEXED BY tasks_of_run ON t.run_seq = r.seq CROSS JOIN json_each(t.limits) l
    WHERE (r.status IN ('pending', 'running') OR r.hooks_pending > 0) AND t.finished_at IS NULL
    UNION ALL
    SELECT l.value FROM (
      ${BACKLOG_JOBS()} UNION SELECT id FROM tasks INDEXED BY tasks_in_flight WHERE holder IS NOT NULL AND run_seq = ${JOB_RUN_SEQ}
      UNION SELECT j.task_id FROM (${QUEUES_OF_JOBS}) q CROSS JOIN jobs j INDEXED BY jobs_of_queue_by_status
        ON j.queue = q.name AND j.status IN ('PENDING', 'BLOCKED') AND j.status <> 'READY'
    ) j CROSS JOIN tasks t ON t.id = j.id CROSS JOIN json_each(t.limits) l
  ) LIMIT ? + 0)`

export const trimLimits = (tx: Tx, limit: number): number => tx.db.run(TRIM_LIMITS, limit)
