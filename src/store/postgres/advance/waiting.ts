// Running rows that hold no slot: how they start to wait, what makes them due, and how due ones are claimed again. A row waits while
// `holder` is NULL; a resumed row is claimed by the gate, under the id of its attempt.

import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { sourceState } from "../../shared/source-state.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { type ClaimRequest, IS_PAUSED, CLAIMED_RUN_COLUMNS } from "../claim/candidates.ts"
import { CLAIM_COLUMNS, type ClaimedRow } from "../claim/claimed-row.ts"
import { deleteFrom, insertInto } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import type { AttemptChanges, LastChange } from "./coalesce-changes.ts"

export type Wait = Extract<LastChange, { kind: "wait" }>

/**
 * A row that became due while it was claimed stays due. Jobs (run 0) do not wait. A wait from before the last resumption is rejected,
 * and the suspension of a function whose run is being cancelled.
 */
const WAIT = statement(
  "wait",
  `WITH waiting AS (
     UPDATE tasks t SET status = 'running', attempt = t.attempt + CASE WHEN t.status = 'pending' THEN 1 ELSE 0 END, waiting_on = c.waiting_on,
       resume_at = CASE
         WHEN c.seen_requests IS NULL THEN LEAST(t.resume_at, ${NOW} + c.delay * interval '1 millisecond')
         WHEN c.seen_requests = COALESCE(t.resume_requests, 0) THEN ${NOW} + c.delay * interval '1 millisecond'
         ELSE ${NOW} END, resume_lane = c.lane, resumes = c.resumes, holder = NULL,
       dispatched_at = COALESCE(t.dispatched_at, ${NOW}),
       started_at = COALESCE(t.started_at, c.started_at, ${NOW}),
       progress = NULL, last_attempt_state = NULL, error = NULL, exit_code = NULL, inner_run = NULL
     FROM unnest(:rows::bigint[], :attempts::uuid[], :waitingOnTexts::text[], :delays::bigint[], :lanes::text[], :startedAts::timestamptz[],
       :resumes::int[], :seenRequests::int[]) AS c (id, attempt_id, waiting_on, delay, lane, started_at, resumes, seen_requests)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.run_seq <> ${JOB_RUN_SEQ}
       AND ${sourceState("wait", "t")} AND (t.waiting_on IS NULL OR t.resumes = c.resumes)
       AND (c.seen_requests IS NULL OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.seq = t.run_seq AND r.cancelling = 'cancel'))
     RETURNING c.attempt_id, t.resume_at, t.started_at, t.run_seq, t.id
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "waiting")}
   )
   SELECT attempt_id, resume_at, started_at FROM waiting`,
)

export interface WaitingRow {
  attempt_id: AttemptId
  resume_at: string | null
  started_at: string
}

export interface WaitingAttempt {
  inFlight: CachedAttempt
  attempt: AttemptChanges
  wait: Wait
}

/** Makes rows wait. Returns those whose fence held. */
export const waitRows = async (tx: Tx, waiting: readonly WaitingAttempt[]): Promise<WaitingRow[]> => {
  if (waiting.length === 0) return []
  const waits = waiting.map(({ wait }) => wait)
  return tx.run(WAIT, {
    rows: waits.map(({ row }) => row),
    attempts: waits.map(({ attemptId }) => attemptId),
    waitingOnTexts: waits.map(({ waitingOn }) => JSON.stringify(waitingOn)),
    delays: waits.map(({ delayMs }) => (delayMs === null ? null : Math.max(0, Math.ceil(delayMs)))),
    lanes: waiting.map(({ inFlight }) =>
      gateLane({ id: inFlight.runId, private: inFlight.private, rootRunId: inFlight.rootRunId }),
    ),
    startedAts: waiting.map(({ attempt, wait }) => isoOrNull(wait.startedAt ?? attempt.start?.at)),
    resumes: waits.map(({ resumes }) => resumes ?? 0),
    seenRequests: waits.map(({ seenRequests }) => seenRequests ?? null),
  })
}

const isoOrNull = (ms: number | undefined): string | null => (ms === undefined ? null : iso(ms))

/** Condition of core `decideResume` for the due row `d` of the run `r`: it is parked. */
export const MUST_PARK_RESUMED = `(${IS_PAUSED} AND NOT d.must_end)`

/** Rows of a paused run are parked until the run continues. */
const CLAIM_RESUMED = statement(
  "claim_resumed",
  `WITH due AS MATERIALIZED (
     SELECT d.* FROM unnest(:lanes::text[]) AS l (lane) CROSS JOIN LATERAL (
       SELECT t.id, t.run_seq, t.limits, t.attempt_id, t.must_end FROM tasks t
       WHERE t.resume_at IS NOT NULL AND t.holder IS NULL AND t.resume_lane = l.lane AND t.resume_at <= ${NOW}
       ORDER BY t.resume_lane, t.resume_at LIMIT :maxClaims::int FOR UPDATE SKIP LOCKED
     ) d WHERE EXISTS (SELECT 1 FROM holders h WHERE h.id = :holder::uuid AND NOT h.dead) LIMIT :maxClaims
   ), k AS MATERIALIZED (
     SELECT d.id, d.limits, ${CLAIMED_RUN_COLUMNS},
       ${MUST_PARK_RESUMED} AS paused, d.attempt_id, NULL::bool AS enqueued_here
     FROM due d JOIN runs r ON r.seq = d.run_seq
   ), parked AS (
     UPDATE tasks t SET parked = ${PARKED_BY_PAUSE}, resume_at = NULL FROM k WHERE t.id = k.id AND k.paused
   ), resumed AS (
     UPDATE tasks t SET holder = :holder::uuid, resume_at = NULL, resumes = t.resumes + 1 FROM k WHERE t.id = k.id AND NOT k.paused
     RETURNING ${CLAIM_COLUMNS}, t.waiting_on, t.resumes, t.must_end, (EXTRACT(epoch FROM ${NOW} - t.started_at) * 1000)::float8 AS elapsed
   ), now_in_flight AS (
     ${insertInto("in_flight", "resumed")}
   )
   SELECT * FROM resumed`,
)

/** Claims rows that wait and are due, for the gate. */
export const claimResumed = async (tx: Tx, { holder, lanes, maxClaims }: ClaimRequest): Promise<ClaimedRow[]> =>
  maxClaims <= 0 || lanes.length === 0 ? [] : tx.run(CLAIM_RESUMED, { holder, lanes, maxClaims })

const REQUEST_RESUME = statement(
  "request_resume",
  `UPDATE tasks t SET resume_requests = COALESCE(t.resume_requests, 0) + 1,
     resume_at = CASE WHEN t.waiting_on IS NOT NULL AND t.parked IS NULL THEN ${NOW} ELSE t.resume_at END
   FROM (SELECT id FROM tasks WHERE id = ANY (:rows::bigint[]) ORDER BY id FOR UPDATE) p
   WHERE t.id = p.id
   RETURNING t.id`,
)

/**
 * Resumes rows that wait: their child runs have closed, or signals were sent. Counts the requests, which an attempt in flight has to
 * see.
 */
export const requestResume = (tx: Tx, rows: readonly number[]): Promise<unknown[]> =>
  rows.length === 0 ? Promise.resolve([]) : tx.run(REQUEST_RESUME, { rows })

const RESUME_CANCELLED = statement(
  "resume_cancelled",
  `WITH waiting AS MATERIALIZED (
     SELECT w.id FROM unnest(:runs::bigint[]) AS r (seq) CROSS JOIN LATERAL (
       SELECT id FROM tasks WHERE run_seq = r.seq AND waiting_on IS NOT NULL AND NOT must_end
       ORDER BY run_seq, id LIMIT ${MAX_CANCEL} FOR UPDATE SKIP LOCKED
     ) w LIMIT ${MAX_CANCEL}
   )
   UPDATE tasks t SET resume_at = ${NOW}, must_end = true, parked = NULL FROM waiting w WHERE t.id = w.id RETURNING t.id`,
)

/** Makes the waiting rows of runs that are being cancelled due, once. Returns how many there were. */
export const resumeCancelled = async (tx: Tx, runs: readonly number[]): Promise<number> =>
  (await tx.run(RESUME_CANCELLED, { runs })).length

const RESUME_UNPAUSED = statement(
  "resume_unpaused",
  `UPDATE tasks SET resume_at = ${NOW}, parked = NULL WHERE run_seq = :run::bigint AND waiting_on IS NOT NULL AND parked = ${PARKED_BY_PAUSE}`,
)

/** Makes the rows due that were parked because their run was paused. */
export const resumeUnpaused = (tx: Tx, run: number): Promise<unknown> => tx.run(RESUME_UNPAUSED, { run })
