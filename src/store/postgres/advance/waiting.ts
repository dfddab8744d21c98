// Running rows that hold no slot: how they come to wait, who wakes them, and how those that are due are given out again. A row
// waits while `holder` is NULL; one that was woken is held like a gate's, under the id of its attempt.

import type { AttemptId } from "../../../core/model/ids.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { iso } from "../../../core/model/ports.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { anyTextParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { LIVE_HOLDER, type ClaimRequest } from "../claim/claim.ts"
import { CLAIMED, type ClaimedRow } from "../claim/claimed-row.ts"
import type { FinalChange, AttemptChanges } from "./coalesce-changes.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { ADD_IN_FLIGHT, REMOVE_IN_FLIGHT } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

export type Wait = Extract<FinalChange, { kind: "wait" }>

const NOW = (parameter: string): string => `COALESCE(${parameter}::timestamptz, now())`

/** What woke a row while it was held stays: it is due again at once. Jobs (run 0) do not wait. */
const WAIT = statement(
  "wait",
  `WITH waiting AS (
     UPDATE tasks t SET status = 'running', attempt = t.attempt + CASE WHEN t.status = 'pending' THEN 1 ELSE 0 END, waiting_on = c.waiting_on,
       resume_at = LEAST(t.resume_at, ${NOW("$1")} + c.delay * interval '1 millisecond'), resume_lane = c.lane, holder = NULL,
       dispatched_at = COALESCE(t.dispatched_at, ${NOW("$1")}),
       started_at = COALESCE(c.started_at, CASE WHEN t.status = 'running' THEN t.started_at END, ${NOW("$1")}),
       progress = NULL, outcome = NULL, error = NULL, exit_code = NULL, inner_run = NULL
     FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::timestamptz[])
       AS c (id, attempt_id, waiting_on, delay, lane, started_at)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.kind = 'task' AND t.run_seq <> 0
       AND t.status IN ('pending', 'dispatched', 'running')
     RETURNING c.attempt_id, t.resume_at, t.started_at, t.run_seq, t.id
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("waiting")}
   )
   SELECT attempt_id, resume_at, started_at FROM waiting`,
)

export interface WaitingRow {
  attempt_id: AttemptId
  resume_at: string | null
  started_at: string
}

export const waitRows = (
  tx: SqlRunner,
  now: string | null,
  changes: readonly { held: InFlightAttempt; step: AttemptChanges; change: Wait }[],
): Promise<WaitingRow[]> =>
  tx.run(WAIT, [
    now,
    arrayParam(changes.map(({ change }) => change.row)),
    arrayParam(changes.map(({ change }) => change.attemptId)),
    textArrayParam(changes.map(({ change }) => JSON.stringify(change.waitingOn))),
    arrayParam(changes.map(({ change }) => (change.delayMs === null ? null : Math.max(0, Math.ceil(change.delayMs))))),
    textArrayParam(changes.map(({ held }) => gateLane({ id: held.runId, private: held.private, rootRunId: held.rootRunId }))),
    arrayParam(changes.map(({ step, change }) => instant(change.startedAt ?? step.start?.at))),
  ])

const instant = (ms: number | undefined): string | null => (ms === undefined ? null : iso(ms))

/** $1 lanes, $2 how many, $5 holder, $6 now: as for claims. Those of a paused run wait for its resumption. */
const WAKE = statement(
  "wake",
  `WITH due AS MATERIALIZED (
     SELECT d.* FROM unnest($1::text[]) AS l (lane) CROSS JOIN LATERAL (
       SELECT t.id, t.run_seq, t.limits, t.attempt_id, t.cancel_requested FROM tasks t
       WHERE t.resume_at IS NOT NULL AND t.holder IS NULL AND t.resume_lane = l.lane AND t.resume_at <= ${NOW("$6")}
       ORDER BY t.resume_lane, t.resume_at LIMIT $2::int FOR UPDATE SKIP LOCKED
     ) d WHERE ${LIVE_HOLDER} AND $3::int IS NULL AND $4::int IS NULL LIMIT $2::int
   ), k AS MATERIALIZED (
     SELECT d.id, d.limits, r.id AS run_id, r.version_id, r.generation, r.cancelling, r.status AS run_status, r.error AS run_error,
       r.paused AND r.status = 'running' AND r.cancelling IS NULL AND NOT d.cancel_requested AS paused, d.attempt_id AS new_id, NULL::bool AS fresh
     FROM due d JOIN runs r ON r.seq = d.run_seq
   ), parked AS (
     UPDATE tasks t SET parked = 0, resume_at = NULL FROM k WHERE t.id = k.id AND k.paused
   ), woken AS (
     UPDATE tasks t SET holder = $5::uuid, resume_at = NULL FROM k WHERE t.id = k.id AND NOT k.paused
     RETURNING ${CLAIMED}, t.waiting_on, t.cancel_requested, (EXTRACT(epoch FROM ${NOW("$6")} - t.started_at) * 1000)::float8 AS elapsed
   ), held AS (
     ${ADD_IN_FLIGHT("woken")}
   )
   SELECT * FROM woken`,
)

export const claimResumed = async (
  tx: SqlRunner,
  { holder, lanes, limit }: ClaimRequest,
  now: string | null,
): Promise<ClaimedRow[]> =>
  limit <= 0 || lanes.length === 0 ? [] : tx.run(WAKE, [anyTextParam(lanes), limit, null, null, holder, now])

const WAKE_PARENTS = statement(
  "wake_parents",
  `UPDATE tasks t SET resume_at = ${NOW("$1")} FROM (
     SELECT id FROM tasks WHERE id = ANY ($2::bigint[]) AND waiting_on IS NOT NULL AND parked IS NULL ORDER BY id FOR UPDATE
   ) p WHERE t.id = p.id
   RETURNING t.id`,
)

/** Their child runs have ended. */
export const resumeParents = (tx: SqlRunner, now: string | null, rows: readonly number[]): Promise<unknown[]> =>
  rows.length === 0 ? Promise.resolve([]) : tx.run(WAKE_PARENTS, [now, arrayParam(rows)])

const WAKE_CANCELLED = statement(
  "wake_cancelled",
  `UPDATE tasks t SET resume_at = ${NOW("$1")}, cancel_requested = true, parked = NULL FROM (
     SELECT w.id FROM unnest($2::bigint[]) AS r (seq) CROSS JOIN LATERAL (
       SELECT id FROM tasks WHERE run_seq = r.seq AND waiting_on IS NOT NULL AND NOT cancel_requested
       ORDER BY run_seq, id LIMIT ${MAX_CANCEL} FOR UPDATE SKIP LOCKED
     ) w LIMIT ${MAX_CANCEL}
   ) w WHERE t.id = w.id
   RETURNING t.id`,
)

/** Their runs are being cancelled: what waits is due, once. Returns how many there were. */
export const resumeCancelled = async (tx: SqlRunner, now: string | null, seqs: readonly number[]): Promise<number> =>
  (await tx.run(WAKE_CANCELLED, [now, arrayParam(seqs)])).length

const WAKE_RESUMED = statement(
  "wake_resumed",
  `UPDATE tasks SET resume_at = ${NOW("$1")}, parked = NULL WHERE run_seq = $2 AND waiting_on IS NOT NULL AND parked = 0`,
)

export const resumeUnpaused = (tx: SqlRunner, now: string | null, seq: number): Promise<unknown> =>
  tx.run(WAKE_RESUMED, [now, seq])
