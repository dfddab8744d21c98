// Deletes finished runs in small transactions, and limits that are not used any more.

import type { RunId } from "../../../core/model/ids.ts"
import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"
import { Conflict } from "../../contract/errors.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { MESSAGE_MS } from "../../shared/bounds.ts"
import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { startPendingRuns } from "../advance/close-runs.ts"
import { excludeKeyLimits } from "../claim/limits.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import { BACKLOG_JOBS } from "../jobs/backlog.ts"
import type { Tx } from "../tx.ts"

/** Condition: a task or durable function waits for the run `r` and has not seen its end. */
const IS_AWAITED = `EXISTS (
     SELECT 1 FROM tasks t WHERE t.id = r.parent_row AND t.finished_at IS NULL AND (strpos(t.waiting_on, r.id::text) > 0 OR EXISTS (
       SELECT 1 FROM steps s WHERE s.task_id = t.id AND s.state = 'waiting' AND strpos(s.details, r.id::text) > 0)))`

const OLD_OR_BEYOND_KEEP = statement(
  "runs_old_or_beyond_keep",
  `SELECT id FROM (
     SELECT id, finished_at, parent_row, row_number() OVER (PARTITION BY workflow_id ORDER BY seq DESC) AS position
     FROM runs WHERE finished_at IS NOT NULL AND hooks_pending = 0
   ) r
   WHERE (finished_at < ${NOW} - :age::bigint * interval '1 millisecond' OR position > :keep::bigint) AND NOT ${IS_AWAITED}
   ORDER BY finished_at, id LIMIT :limit`,
)

const OLDER = statement(
  "runs_older",
  `SELECT id FROM runs r WHERE finished_at < ${NOW} - :age::bigint * interval '1 millisecond'
     AND hooks_pending = 0 AND NOT ${IS_AWAITED}
   ORDER BY finished_at, id LIMIT :limit`,
)

export const removableRuns = async (
  connection: SqlRunner,
  { olderThanMs, keep, limit }: { olderThanMs?: number; keep?: number; limit: number },
): Promise<RunId[]> => {
  const age = olderThanMs ?? null
  const rows =
    keep === undefined
      ? await connection.run<{ id: RunId }>(OLDER, { age, limit })
      : await connection.run<{ id: RunId }>(OLD_OR_BEYOND_KEEP, { age, keep, limit })
  return rows.map(({ id }) => id)
}

const RUN = statement(
  "remove_find",
  `SELECT seq, finished_at IS NOT NULL AND hooks_pending = 0
     AND finished_at < COALESCE(:endedBefore::timestamptz, 'infinity') AS "isFinished" FROM runs WHERE id = :runId::uuid FOR UPDATE`,
)

const REMOVE_TASKS = statement(
  "remove_tasks",
  `WITH deleted AS (
     DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE run_seq = :seq LIMIT :maxRows) RETURNING id
   ), deleted_attempts AS (
     DELETE FROM attempts a USING deleted d WHERE a.task_id = d.id
   ), deleted_steps AS (
     DELETE FROM steps s USING deleted d WHERE s.task_id = d.id
   ), deleted_signals AS (
     DELETE FROM signals s USING deleted d WHERE s.task_id = d.id
   )
   SELECT count(*)::int AS count FROM deleted`,
)

const REMOVE_LIMITS = statement(
  "remove_limits",
  `DELETE FROM limits WHERE key = '${LIMIT_PREFIX.run}' || :runId::text
     OR key >= '${LIMIT_PREFIX.task}' || :runId::text || ':' AND key < '${LIMIT_PREFIX.task}' || :runId::text || ';'`,
)

const MARK = statement("remove_mark", "UPDATE runs SET removing = true WHERE seq = :seq AND NOT removing")

const REMOVE_PROBLEMS = statement(
  "remove_notification_problems",
  "DELETE FROM notification_problems WHERE run_id = :runId::uuid",
)

const REMOVE_RUN = statement("remove_run", "DELETE FROM runs WHERE seq = :seq RETURNING workflow_id")

const FORGET_PREVIOUS = statement(
  "remove_forget_previous",
  `UPDATE runs SET previous_run = NULL WHERE previous_run = :runId::uuid AND status IN ('pending', 'running')
   RETURNING ${NOW}::timestamptz(3) AS now`,
)

/** Starts the runs that waited for the success of a deleted run. */
const startFreed = async (tx: Tx, workflowId: number, at: string): Promise<void> => {
  const { runs } = await startPendingRuns(tx, [workflowId])
  tx.events.push(...runs.map(({ id }): StoreEvent => ({ type: "run", runId: id, status: "running", at })))
}

const KEPT_SINCE = `${NOW} - :keptMs::int * interval '1 millisecond'`

const FORGET_MESSAGES = statement("messages_forget", `DELETE FROM used_messages WHERE used_at < ${KEPT_SINCE}`)

const KEEP_MESSAGE = statement(
  "messages_keep",
  `INSERT INTO used_messages (key, used_at) SELECT idempotency_key, ${NOW} FROM runs
   WHERE seq = :seq AND trigger = 'webhook' AND idempotency_key IS NOT NULL AND created_at > ${KEPT_SINCE}
   ON CONFLICT DO NOTHING`,
)

const IS_USED = statement("messages_used", "SELECT key FROM used_messages WHERE key = :key")

export const isMessageUsed = async (connection: SqlRunner, key: string): Promise<boolean> =>
  (await connection.run(IS_USED, { key })).length > 0

/**
 * Deletes up to `maxRows` task rows. A run that waits for the success of the deleted one may start. Returns whether the run is deleted;
 * otherwise the caller repeats the call.
 */
export const removeRun = async (tx: Tx, runId: RunId, maxRows: number, endedBefore?: number): Promise<boolean> => {
  const before = endedBefore === undefined ? null : new Date(endedBefore).toISOString()
  const [run] = await tx.run<{ seq: number; isFinished: boolean | null }>(RUN, { runId, endedBefore: before })
  if (run === undefined) return true
  if (run.isFinished !== true)
    throw new Conflict(`run ${runId} has not ended: cancel it and wait for it and its hooks before removing it`)
  const [deleted] = await tx.run<{ count: number }>(REMOVE_TASKS, { seq: run.seq, maxRows })
  if (deleted!.count === maxRows) {
    await tx.run(MARK, { seq: run.seq })
    return false
  }
  await tx.run(FORGET_MESSAGES, { keptMs: MESSAGE_MS })
  await tx.run(KEEP_MESSAGE, { seq: run.seq, keptMs: MESSAGE_MS })
  await tx.run(REMOVE_LIMITS, { runId })
  await tx.run(REMOVE_PROBLEMS, { runId })
  const [removed] = await tx.run<{ workflow_id: number }>(REMOVE_RUN, { seq: run.seq })
  const freed = await tx.run<{ now: string }>(FORGET_PREVIOUS, { runId })
  if (freed.length > 0) await startFreed(tx, removed!.workflow_id, freed[0]!.now)
  return true
}

/** Limits of concurrency keys under which no unfinished row is. A blocked job may become ready again. */
const UNUSED_LIMITS = `
     SELECT id FROM limits WHERE key > '${LIMIT_PREFIX.key}' AND key < 'k;' AND used = 0
     EXCEPT (
       SELECT unnest(t.limits) FROM runs r JOIN tasks t ON t.run_seq = r.seq
       WHERE (r.status IN ('pending', 'running') OR r.hooks_pending > 0) AND t.finished_at IS NULL AND t.limits IS NOT NULL
       UNION ALL
       SELECT unnest(t.limits) FROM (
         ${BACKLOG_JOBS()} UNION SELECT id FROM in_flight WHERE run_seq = ${JOB_RUN_SEQ}
         UNION SELECT task_id FROM jobs WHERE listed_status IN ('PENDING', 'BLOCKED')
       ) j JOIN tasks t ON t.id = j.id WHERE t.limits IS NOT NULL
     )`

const FIND_UNUSED_LIMITS = statement("limits_unused", `${UNUSED_LIMITS} LIMIT 1`)

/** Waits for no lock: transactions that wait for this one may hold it. */
const TRIM_LIMITS = statement(
  "limits_trim",
  `DELETE FROM limits WHERE id IN (
     SELECT l.id FROM limits l WHERE l.used = 0 AND l.id = ANY (ARRAY(${UNUSED_LIMITS} LIMIT :limit)) FOR UPDATE SKIP LOCKED
   ) RETURNING 1`,
)

const MAX_TRIES = 100

/** Deletes nothing while other transactions put rows under limits of concurrency keys without a pause: a later call may. */
export const trimLimits = async (tx: SqlRunner, limit: number): Promise<number> => {
  if ((await tx.run(FIND_UNUSED_LIMITS)).length === 0) return 0
  for (let tries = 0; tries < MAX_TRIES; tries++)
    if (await excludeKeyLimits(tx)) return (await tx.run(TRIM_LIMITS, { limit })).length
  return 0
}
