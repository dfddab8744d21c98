// Timers are columns: due retries become ready, and runs past their timeout begin to be cancelled. The poll at the end
// of each turn returns when the next timer is due, and which runs are being cancelled.

import type { AttemptId, HolderId } from "../../../core/model/ids.ts"
import { MAX_DUE } from "../../shared/bounds.ts"
import type { Batch, CancelReason } from "../../contract/store.ts"
import { IN_FLIGHT_ROWS, insertInto, READINESS } from "../claim/ready-queue.ts"
import { pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { beginCancel } from "./cancel-pending.ts"
import { type ExpiredJobs, expireJobs } from "../jobs/expiry.ts"
import { findWithoutLimits, setLimits, WITHOUT_LIMITS } from "../jobs/late-limits.ts"
import { readPassedTimeouts } from "./group-timeouts.ts"

const MAKE_DUE_READY = statement(
  "timers_fire_retries",
  `WITH due AS MATERIALIZED (
     SELECT id FROM tasks WHERE available_at <= ${NOW} AND (${WITHOUT_LIMITS}) IS NOT TRUE ORDER BY available_at LIMIT ${MAX_DUE} FOR UPDATE SKIP LOCKED
   ), fired AS (
     UPDATE tasks t SET available_at = NULL FROM due d WHERE t.id = d.id RETURNING ${READINESS("t")}
   )
   ${insertInto("ready_queue", "fired")} RETURNING id`,
)

const TIMED_OUT_RUNS = statement(
  "timers_timed_out_runs",
  `SELECT seq, version_id FROM runs WHERE timeout_at <= ${NOW} AND status = 'running' AND cancelling IS NULL
   ORDER BY timeout_at LIMIT ${MAX_DUE} FOR UPDATE SKIP LOCKED`,
)

export interface FiredTimers {
  /** Number of rows that became ready. */
  ready: number
  /** Groups whose timeout has passed. */
  groups: number[]
  expiredJobs: ExpiredJobs
  /** Rows of jobs whose expiry has passed, also of claimed ones. */
  expiredRows: number[]
  /** Whether more jobs may have expired: the turn claims no work, since it could be one of them. */
  expiredRowsLeft: boolean
}

/** Makes due retries and delayed jobs ready, starts to cancel runs that timed out, and fails jobs past their expiry. */
export const fireTimers = async (tx: Tx): Promise<FiredTimers> => {
  const retries = tx.run(MAKE_DUE_READY)
  const withoutLimits = pipelined(findWithoutLimits(tx))
  const passed = pipelined(readPassedTimeouts(tx))
  const runs = tx.run<{ seq: number; version_id: number }>(TIMED_OUT_RUNS)
  const ready = (await retries).length + (await setLimits(tx, await withoutLimits))
  const timedOut = await runs
  if (timedOut.length > 0) await beginCancel(tx, timedOut, "timeout")
  const { groups, jobs, full } = await passed
  return { ready, groups, expiredJobs: await expireJobs(tx, jobs), expiredRows: jobs, expiredRowsLeft: full }
}

const POLL = statement(
  "poll_pending_work",
  `SELECT (EXTRACT(epoch FROM LEAST(
       (SELECT min(available_at) FROM tasks WHERE available_at IS NOT NULL),
       (SELECT min(timeout_at) FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL),
       (SELECT min(at) FROM deadlines WHERE at IS NOT NULL),
       (SELECT min(w.resume_at) FROM unnest(:resumeLanes::text[]) AS l (lane) CROSS JOIN LATERAL (
         SELECT t.resume_at FROM tasks t WHERE t.resume_at IS NOT NULL AND t.holder IS NULL AND t.resume_lane = l.lane
         ORDER BY t.resume_lane, t.resume_at LIMIT 1) w WHERE EXISTS (SELECT 1 FROM holders h WHERE h.id = :holder::uuid AND NOT h.dead))
     ) - ${NOW}) * 1000)::float8 AS "dueMs",
     ${NOW}::timestamptz(3) AS at,
     EXISTS (SELECT 1 FROM unnest(:gateLanes::text[]) AS l (lane) CROSS JOIN LATERAL (
       SELECT 1 FROM ready_queue q WHERE q.lane = l.lane LIMIT 1) g) AS "gateReady",
     (SELECT json_agg(json_build_object('runSeq', r.seq, 'reason', r.cancelling)) FROM runs r
       WHERE r.cancelling IS NOT NULL AND r.status IN ('pending', 'running')) AS cancelling,
     (SELECT array_agg(s.attempt_id ORDER BY s.task_id) FROM stop_requests s WHERE s.holder = :holder::uuid) AS "stopRequests",
     CASE WHEN :measure::boolean THEN pg_relation_size('tasks') END AS "tableBytes"`,
)

/** Those of the runs that have attempts of the holder in flight. */
const OWN_RUNS = statement(
  "poll_own_runs",
  `SELECT r.seq FROM unnest(:runs::bigint[]) AS r (seq) WHERE EXISTS (
     SELECT 1 FROM ${IN_FLIGHT_ROWS("WHERE run_seq = r.seq")} WHERE t.holder = :holder::uuid AND t.status IN ('dispatched', 'running'))`,
)

export interface PendingWork {
  /** The instant of the transaction. */
  at: string
  /** Whether rows are ready for the gate. */
  gateReady: boolean
  /** Milliseconds until the next timer is due, or null. */
  dueMs: number | null
  /** Runs that are being cancelled; `ours`: the holder has attempts of it in flight. */
  cancelling: { runSeq: number; reason: CancelReason; ours: boolean }[]
  /** Live attempts of the holder that must stop. */
  stopRequests: AttemptId[]
}

/**
 * Polls for timers, cancels and rows for the gate. Sends its statement before it returns. An idle turn, and turns after it, measure the
 * table, which is cheap while it is small.
 */
export const readPendingWork = async (
  tx: Tx,
  { holder, gate, changes }: Pick<Batch, "holder" | "gate" | "changes">,
): Promise<PendingWork> => {
  type Row = Omit<PendingWork, "cancelling" | "stopRequests"> & {
    cancelling: Omit<PendingWork["cancelling"][number], "ours">[] | null
    stopRequests: AttemptId[] | null
    tableBytes: number | null
  }
  const { planAge } = tx
  const [row] = await tx.run<Row>(POLL, {
    holder,
    gateLanes: gate.lanes,
    resumeLanes: gate.maxClaims > 0 ? gate.lanes : [],
    measure: changes.length === 0 || planAge.isSmall,
  })
  const { cancelling, stopRequests, tableBytes, ...rest } = row!
  if (tableBytes !== null) planAge.noteSize(tableBytes)
  const own = cancelling === null ? [] : await ownRuns(tx, holder, cancelling)
  return {
    ...rest,
    cancelling: cancelling?.map((run) => ({ ...run, ours: own.includes(run.runSeq) })) ?? [],
    stopRequests: stopRequests ?? [],
  }
}

const ownRuns = async (tx: Tx, holder: HolderId, cancelling: readonly { runSeq: number }[]): Promise<number[]> => {
  const rows = await tx.run<{ seq: number }>(OWN_RUNS, { holder, runs: cancelling.map(({ runSeq }) => runSeq) })
  return rows.map(({ seq }) => seq)
}
