// Changes that do not end a row: started, retry, release, admit. Each kind is one statement for all of its changes in a batch,
// conditional on the fence; it answers with the attempts whose fence held.

import type { AttemptId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import type { FinalChange, Progressed, Started, AttemptChanges } from "./coalesce-changes.ts"
import { INNER_RUN, REMOVE_IN_FLIGHT, ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

/** Told again (the answer to the first time was lost), a start holds and changes nothing. */
const STARTED = statement(
  "started",
  `UPDATE tasks t SET status = 'running', started_at = CASE WHEN t.status = 'dispatched' THEN c.at ELSE t.started_at END,
     external_id = COALESCE(c.external_id, t.external_id)
   FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::text[]) AS c (id, attempt_id, at, external_id)
   WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running')
   RETURNING c.attempt_id`,
)

const PROGRESS = statement(
  "progress",
  `UPDATE tasks t SET progress = c.progress FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS c (id, attempt_id, progress)
   WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running')
   RETURNING c.attempt_id`,
)

export const progressRows = (tx: SqlRunner, changes: readonly Progressed[]): Promise<Row[]> =>
  tx.run(PROGRESS, [
    ...fences(changes),
    textArrayParam(changes.map(({ fraction, details }) => JSON.stringify({ fraction, details }))),
  ])

const RETRY = statement(
  "retry",
  `WITH change AS (
     SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::boolean[], $6::text[], $7::timestamptz[],
       $8::timestamptz[], $9::text[], $10::int[], $11::text[], $12::text[])
     AS c (id, attempt_id, delay, lost, state, started_at, finished_at, error, exit_code, usage, external_id)
   ), past AS (
     SELECT t.id, t.attempt, t.attempt_id, c.state, t.worker, COALESCE(c.external_id, t.external_id) AS external_id, c.exit_code,
       c.error, c.usage, t.dispatched_at, COALESCE(c.started_at, t.started_at) AS started_at, c.finished_at, c.delay, c.lost
     FROM change c JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id
     WHERE t.status IN ('dispatched', 'running')
     FOR UPDATE OF t
   ), kept AS (
     INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at,
       started_at, finished_at)
     SELECT id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at, finished_at
     FROM past
   ), back AS (
     UPDATE tasks t SET status = 'pending', attempt_id = NULL, holder = NULL, worker = NULL, external_id = NULL,
       failures = t.failures + CASE WHEN p.lost THEN 0 ELSE 1 END, losses = t.losses + CASE WHEN p.lost THEN 1 ELSE 0 END,
       available_at = CASE WHEN p.delay > 0 THEN COALESCE($1::timestamptz, now()) + p.delay * interval '1 millisecond' END,
       dispatched_at = NULL, started_at = NULL, finished_at = NULL, outcome = p.state, error = p.error, exit_code = p.exit_code,
       usage = NULL, waiting_on = NULL, resume_at = NULL, cancel_requested = false, parked = NULL, progress = NULL, inner_run = ${INNER_RUN("t")}
     FROM past p WHERE t.id = p.id
     RETURNING p.attempt_id, t.available_at, ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("back")}
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("back")}
   )
   SELECT attempt_id, available_at FROM back`,
)

const RELEASE = statement(
  "release",
  `WITH back AS (
     UPDATE tasks t SET attempt = t.attempt - CASE WHEN t.status = 'dispatched' THEN 1 ELSE 0 END, holder = NULL,
       status = CASE WHEN t.waiting_on IS NULL THEN 'pending' ELSE 'running' END,
       attempt_id = CASE WHEN t.waiting_on IS NOT NULL THEN t.attempt_id END, worker = CASE WHEN t.waiting_on IS NOT NULL THEN t.worker END,
       dispatched_at = CASE WHEN t.waiting_on IS NOT NULL THEN t.dispatched_at END,
       resume_at = CASE WHEN t.waiting_on IS NOT NULL THEN COALESCE($3::timestamptz, now()) END,
       inner_run = CASE WHEN t.waiting_on IS NULL THEN ${INNER_RUN("t")} END
     FROM unnest($1::bigint[], $2::uuid[]) AS c (id, attempt_id)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND (t.status IN ('dispatched', 'pending') OR t.waiting_on IS NOT NULL)
     RETURNING c.attempt_id, ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("back")}
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("back")}
   )
   SELECT attempt_id FROM back`,
)

const ADMIT = statement(
  "admit",
  `WITH admitted AS (
     UPDATE tasks t SET lane = c.lane, limits = c.limits::bigint[], attempt_id = NULL, holder = NULL
     FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[]) AS c (id, attempt_id, lane, limits)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.status = 'pending'
     RETURNING c.attempt_id, ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("admitted")}
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("admitted")}
   )
   SELECT attempt_id FROM admitted`,
)

const CACHE = statement(
  "cache_put",
  `INSERT INTO cache (workflow_id, task, key, output, output_key, output_bytes, expires_at)
   SELECT DISTINCT ON (workflow_id, task, key) workflow_id, task, key, output, output_key, output_bytes,
     COALESCE($1::timestamptz, now()) + ttl * interval '1 millisecond'
   FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
     WITH ORDINALITY AS c (workflow_id, task, key, output, output_key, output_bytes, ttl, n)
   ORDER BY workflow_id, task, key, n DESC
   ON CONFLICT (workflow_id, task, key) DO UPDATE SET output = excluded.output, output_key = excluded.output_key,
     output_bytes = excluded.output_bytes, expires_at = excluded.expires_at`,
)

type Row = { attempt_id: AttemptId; available_at?: string | null }
export type Retry = Extract<FinalChange, { kind: "retry" }>
export type Admit = Extract<FinalChange, { kind: "enqueue" }>

const fences = (changes: readonly { row: number; attemptId: string }[]): [string | null, string | null] => [
  arrayParam(changes.map((change) => change.row)),
  arrayParam(changes.map((change) => change.attemptId)),
]

export const startRows = (tx: SqlRunner, changes: readonly Started[]): Promise<Row[]> =>
  tx.run(STARTED, [
    ...fences(changes),
    arrayParam(changes.map((change) => iso(change.at))),
    textArrayParam(changes.map((change) => change.externalId ?? null)),
  ])

export const retryRows = (
  tx: SqlRunner,
  now: string | null,
  changes: readonly { step: AttemptChanges; change: Retry }[],
): Promise<Row[]> => {
  const instant = (ms: number | null | undefined): string | null => (ms === null || ms === undefined ? null : iso(ms))
  return tx.run(RETRY, [
    now,
    ...fences(changes.map(({ change }) => change)),
    arrayParam(changes.map(({ change }) => Math.ceil(change.delayMs))),
    arrayParam(changes.map(({ change }) => change.lost)),
    arrayParam(changes.map(({ change }) => change.result.state)),
    arrayParam(changes.map(({ step, change }) => instant(change.result.startedAt ?? step.start?.at))),
    arrayParam(changes.map(({ change }) => instant(change.result.finishedAt))),
    textArrayParam(changes.map(({ change }) => change.result.error ?? null)),
    arrayParam(changes.map(({ change }) => change.result.exitCode ?? null)),
    textArrayParam(
      changes.map(({ change }) => (change.result.usage === undefined ? null : JSON.stringify(change.result.usage))),
    ),
    textArrayParam(changes.map(({ step, change }) => change.result.externalId ?? step.start?.externalId ?? null)),
  ])
}

export const releaseRows = (
  tx: SqlRunner,
  now: string | null,
  changes: readonly { row: number; attemptId: string }[],
): Promise<Row[]> => tx.run(RELEASE, [...fences(changes), now])

export const admitRows = (
  tx: SqlRunner,
  changes: readonly Admit[],
  limitIds: (limits: Admit["limits"]) => number[] | null,
): Promise<Row[]> =>
  tx.run(ADMIT, [
    ...fences(changes),
    textArrayParam(changes.map((change) => change.lane)),
    textArrayParam(
      changes.map((change) => {
        const ids = limitIds(change.limits)
        return ids === null ? null : arrayParam(ids)
      }),
    ),
  ])

export interface CacheEntry {
  workflowId: number
  task: string
  key: string
  output: [inline: string | null, key: string | null, bytes: number | null]
  ttlMs: number | null
}

export const cacheOutputs = (tx: SqlRunner, now: string | null, entries: readonly CacheEntry[]): Promise<unknown[]> =>
  tx.run(CACHE, [
    now,
    arrayParam(entries.map((entry) => entry.workflowId)),
    textArrayParam(entries.map((entry) => entry.task)),
    textArrayParam(entries.map((entry) => entry.key)),
    textArrayParam(entries.map((entry) => entry.output[0])),
    textArrayParam(entries.map((entry) => entry.output[1])),
    arrayParam(entries.map((entry) => entry.output[2])),
    arrayParam(entries.map((entry) => entry.ttlMs)),
  ])
