// Changes that do not finish a row: start, progress, retry, release, enqueue. Each kind is one statement for all of its changes in a
// batch, conditional on the fence; it returns the attempts whose fence held.

import type { AttemptId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { sourceState } from "../../shared/source-state.ts"
import { INNER_RUN, deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { arrayParam } from "../connection/array-params.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import { IS_RELEASED_LATE, REPEAT_EXPIRY } from "../jobs/times.ts"
import type { Tx } from "../tx.ts"
import type { AttemptChanges, LastChange, Progressed, Started } from "./coalesce-changes.ts"

/** A start that is reported again, because the reply to the first report was lost, holds and changes nothing. */
const START = statement(
  "start",
  `UPDATE tasks t SET status = 'running', started_at = COALESCE(t.started_at, c.at),
     external_id = COALESCE(c.external_id, t.external_id)
   FROM unnest(:rows::bigint[], :attempts::uuid[], :startTimes::timestamptz[], :externalIds::text[]) AS c (id, attempt_id, at, external_id)
   WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("started", "t")}
   RETURNING c.attempt_id`,
)

const PROGRESS = statement(
  "progress",
  `UPDATE tasks t SET progress = c.progress FROM unnest(:rows::bigint[], :attempts::uuid[], :progress::text[]) AS c (id, attempt_id, progress)
   WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("progress", "t")}
   RETURNING c.attempt_id`,
)

const RETRY = statement(
  "retry",
  `WITH change AS (
     SELECT * FROM unnest(:rows::bigint[], :attempts::uuid[], :delays::bigint[], :lost::boolean[], :states::text[],
       :startedAts::timestamptz[], :finishedAts::timestamptz[], :errors::text[], :exitCodes::int[], :usages::text[], :externalIds::text[])
     AS c (id, attempt_id, delay, lost, state, started_at, finished_at, error, exit_code, usage, external_id)
   ), past AS (
     SELECT t.id, t.attempt, t.attempt_id, c.state, t.worker, COALESCE(c.external_id, t.external_id) AS external_id, c.exit_code,
       c.error, c.usage, t.dispatched_at, COALESCE(t.started_at, c.started_at) AS started_at, c.finished_at, c.delay, c.lost
     FROM change c JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id
     WHERE ${sourceState("retry", "t")}
     FOR UPDATE OF t
   ), kept AS (
     INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at,
       started_at, finished_at)
     SELECT id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at, finished_at
     FROM past
   ), retried AS (
     UPDATE tasks t SET status = 'pending', attempt_id = NULL, holder = NULL, worker = NULL, external_id = NULL,
       failures = t.failures + CASE WHEN p.lost THEN 0 ELSE 1 END, losses = t.losses + CASE WHEN p.lost THEN 1 ELSE 0 END,
       available_at = CASE WHEN p.delay > 0 THEN ${NOW} + p.delay * interval '1 millisecond' END,
       dispatched_at = NULL, started_at = NULL, finished_at = NULL, last_attempt_state = p.state, error = p.error, exit_code = p.exit_code,
       usage = NULL, waiting_on = NULL, resume_at = NULL, must_end = false, parked = NULL, progress = NULL, inner_run = ${INNER_RUN("t")}
     FROM past p WHERE t.id = p.id
     RETURNING p.attempt_id, t.available_at, ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "retried")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "retried")}
   )
   SELECT attempt_id, available_at FROM retried`,
)

/** A job that is released after its expiry is not ready: the timers of the turn, or of the next one, fail it. */
const RELEASE = statement(
  "release",
  `WITH released AS (
     UPDATE tasks t SET attempt = t.attempt - CASE WHEN t.status = 'dispatched' THEN 1 ELSE 0 END, holder = NULL,
       status = CASE WHEN t.waiting_on IS NULL THEN 'pending' ELSE 'running' END,
       attempt_id = CASE WHEN t.waiting_on IS NOT NULL THEN t.attempt_id END, worker = CASE WHEN t.waiting_on IS NOT NULL THEN t.worker END,
       dispatched_at = CASE WHEN t.waiting_on IS NOT NULL THEN t.dispatched_at END,
       resume_at = CASE WHEN t.waiting_on IS NOT NULL THEN ${NOW} END,
       inner_run = CASE WHEN t.waiting_on IS NULL THEN ${INNER_RUN("t")} END,
       available_at = CASE WHEN ${IS_RELEASED_LATE} THEN ${NOW} ELSE t.available_at END
     FROM unnest(:rows::bigint[], :attempts::uuid[]) AS c (id, attempt_id)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("release", "t")}
     RETURNING c.attempt_id, ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "released")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "released")}
   ), expiring AS (
     ${REPEAT_EXPIRY("released")}
   )
   SELECT attempt_id FROM released`,
)

const REQUEUE = statement(
  "requeue",
  `WITH requeued AS (
     UPDATE tasks t SET status = 'pending', attempt = t.attempt - 1, attempt_id = NULL, holder = NULL, worker = NULL, dispatched_at = NULL,
       waiting_on = NULL, resume_at = NULL, must_end = false, inner_run = ${INNER_RUN("t")}
     FROM unnest(:rows::bigint[], :attempts::uuid[]) AS c (id, attempt_id)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("requeue", "t")}
     RETURNING c.attempt_id, ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "requeued")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "requeued")}
   )
   SELECT attempt_id FROM requeued`,
)

const ENQUEUE = statement(
  "enqueue",
  `WITH passed_gate AS (
     UPDATE tasks t SET lane = c.lane, limits = c.limits::bigint[], attempt_id = NULL, holder = NULL
     FROM unnest(:rows::bigint[], :attempts::uuid[], :lanes::text[], :limits::text[]) AS c (id, attempt_id, lane, limits)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("enqueue", "t")}
     RETURNING c.attempt_id, ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "passed_gate")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "passed_gate")}
   )
   SELECT attempt_id FROM passed_gate`,
)

const CACHE = statement(
  "cache_put",
  `INSERT INTO cache (workflow_id, task, key, output, output_key, output_bytes, expires_at)
   SELECT DISTINCT ON (workflow_id, task, key) workflow_id, task, key, output, output_key, output_bytes,
     ${NOW} + ttl * interval '1 millisecond'
   FROM unnest(:workflows::bigint[], :tasks::text[], :keys::text[], :outputs::text[], :outputKeys::text[], :outputBytes::bigint[], :ttls::bigint[])
     WITH ORDINALITY AS c (workflow_id, task, key, output, output_key, output_bytes, ttl, n)
   ORDER BY workflow_id, task, key, n DESC
   ON CONFLICT (workflow_id, task, key) DO UPDATE SET output = excluded.output, output_key = excluded.output_key,
     output_bytes = excluded.output_bytes, expires_at = excluded.expires_at`,
)

/** An attempt whose fence held; `available_at` when it is retried later. */
export interface HeldAttempt {
  attempt_id: AttemptId
  available_at?: string | null
}

export type Retry = Extract<LastChange, { kind: "retry" }>
export type Enqueue = Extract<LastChange, { kind: "enqueue" }>

interface Fenced {
  row: number
  attemptId: AttemptId
}

const fenceParams = (changes: readonly Fenced[]) => ({
  rows: changes.map(({ row }) => row),
  attempts: changes.map(({ attemptId }) => attemptId),
})

/** Runs the statement unless there are no changes. */
const runFor = async (changes: readonly Fenced[], run: () => Promise<HeldAttempt[]>): Promise<readonly HeldAttempt[]> =>
  changes.length === 0 ? [] : run()

export const startRows = (tx: Tx, starts: readonly Started[]): Promise<readonly HeldAttempt[]> =>
  runFor(starts, () =>
    tx.run(START, {
      ...fenceParams(starts),
      startTimes: starts.map(({ at }) => iso(at)),
      externalIds: starts.map(({ externalId }) => externalId ?? null),
    }),
  )

export const progressRows = (tx: Tx, changes: readonly Progressed[]): Promise<readonly HeldAttempt[]> =>
  runFor(changes, () =>
    tx.run(PROGRESS, {
      ...fenceParams(changes),
      progress: changes.map(({ fraction, details }) => JSON.stringify({ fraction, details })),
    }),
  )

const isoOrNull = (ms: number | null | undefined): string | null => (ms === null || ms === undefined ? null : iso(ms))

export const retryRows = (
  tx: Tx,
  retries: readonly { attempt: AttemptChanges; last: Retry }[],
): Promise<readonly HeldAttempt[]> => {
  const lastChanges = retries.map(({ last }) => last)
  return runFor(lastChanges, () =>
    tx.run(RETRY, {
      ...fenceParams(lastChanges),
      delays: lastChanges.map(({ delayMs }) => Math.ceil(delayMs)),
      lost: lastChanges.map(({ lost }) => lost),
      states: lastChanges.map(({ result }) => result.state),
      startedAts: retries.map(({ attempt, last }) => isoOrNull(last.result.startedAt ?? attempt.start?.at)),
      finishedAts: lastChanges.map(({ result }) => isoOrNull(result.finishedAt)),
      errors: lastChanges.map(({ result }) => result.error ?? null),
      exitCodes: lastChanges.map(({ result }) => result.exitCode ?? null),
      usages: lastChanges.map(({ result }) => (result.usage === undefined ? null : JSON.stringify(result.usage))),
      externalIds: retries.map(({ attempt, last }) => last.result.externalId ?? attempt.start?.externalId ?? null),
    }),
  )
}

export const releaseRows = (tx: Tx, fences: readonly Fenced[]): Promise<readonly HeldAttempt[]> =>
  runFor(fences, () => tx.run(RELEASE, fenceParams(fences)))

export const requeueRows = (tx: Tx, fences: readonly Fenced[]): Promise<readonly HeldAttempt[]> =>
  runFor(fences, () => tx.run(REQUEUE, fenceParams(fences)))

/** Enqueues rows that the gate admitted. `limitIds` returns the ids of a row's limits. */
export const enqueueRows = (
  tx: Tx,
  changes: readonly Enqueue[],
  limitIds: (limits: Enqueue["limits"]) => number[],
): Promise<readonly HeldAttempt[]> =>
  runFor(changes, () =>
    tx.run(ENQUEUE, {
      ...fenceParams(changes),
      lanes: changes.map(({ lane }) => lane),
      limits: changes.map(({ limits }) => arrayParam(limitIds(limits))),
    }),
  )

export interface CacheEntry {
  workflowId: number
  task: string
  key: string
  output: [inline: string | null, key: string | null, bytes: number | null]
  ttlMs: number | null
}

/** Stores outputs of successful tasks for reuse. */
export const cacheOutputs = async (tx: Tx, entries: readonly CacheEntry[]): Promise<void> => {
  if (entries.length === 0) return
  await tx.run(CACHE, {
    workflows: entries.map(({ workflowId }) => workflowId),
    tasks: entries.map(({ task }) => task),
    keys: entries.map(({ key }) => key),
    outputs: entries.map(({ output }) => output[0]),
    outputKeys: entries.map(({ output }) => output[1]),
    outputBytes: entries.map(({ output }) => output[2]),
    ttls: entries.map(({ ttlMs }) => ttlMs),
  })
}
