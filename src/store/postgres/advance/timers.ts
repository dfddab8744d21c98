// Time as a column: retries whose hour has come become ready, runs whose time is over begin to be cancelled. And the look at the
// end of each turn that says when the next of them is due, and which runs are being cancelled.

import type { AttemptId } from "../../../core/model/ids.ts"
import { MAX_DUE } from "../../shared/bounds.ts"
import type { Batch, CancelReason } from "../../contract/store.ts"
import { anyTextParam } from "../connection/array-params.ts"
import { beginCancel } from "./cancel-pending.ts"
import { dueGroups } from "./group-deadlines.ts"
import { IN_FLIGHT_ROWS, ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../admin/workflows.ts"

const DUE = statement(
  "timers_due",
  `WITH due AS (
     UPDATE tasks t SET available_at = NULL FROM (
       SELECT id FROM tasks WHERE available_at <= COALESCE($1::timestamptz, now())
       ORDER BY available_at LIMIT ${MAX_DUE} FOR UPDATE SKIP LOCKED
     ) d WHERE t.id = d.id RETURNING ${READINESS("t")}
   )
   ${ENQUEUE("due")} RETURNING id`,
)

const LATE = statement(
  "timers_late",
  `SELECT seq, version_id FROM runs
   WHERE timeout_at <= COALESCE($1::timestamptz, now()) AND status = 'running' AND cancelling IS NULL
   ORDER BY timeout_at LIMIT ${MAX_DUE} FOR UPDATE SKIP LOCKED`,
)

/** Retries that are due, and runs that are late. Returns how many rows became ready, and groups that are late. */
export const runTimers = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
): Promise<{ ready: number; groups: number[] }> => {
  const due = tx.run(DUE, [now])
  const groups = pipelined(dueGroups(tx, now))
  const late = tx.run<{ seq: number; version_id: number }>(LATE, [now])
  const ready = (await due).length
  const runs = await late
  if (runs.length > 0) await beginCancel(tx, workflows, runs, "timeout")
  return { ready, groups: await groups }
}

const LOOK = statement(
  "look",
  `SELECT (EXTRACT(epoch FROM LEAST(
       (SELECT min(available_at) FROM tasks WHERE available_at IS NOT NULL),
       (SELECT min(timeout_at) FROM runs WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL),
       (SELECT min(at) FROM deadlines WHERE at IS NOT NULL),
       (SELECT min(w.resume_at) FROM unnest($4::text[]) AS l (lane) CROSS JOIN LATERAL (
         SELECT t.resume_at FROM tasks t WHERE t.resume_at IS NOT NULL AND t.holder IS NULL AND t.resume_lane = l.lane
         ORDER BY t.resume_lane, t.resume_at LIMIT 1) w WHERE EXISTS (SELECT 1 FROM holders h WHERE h.id = $2::uuid AND NOT h.dead))
     ) - COALESCE($1::timestamptz, now())) * 1000)::float8 AS due,
     COALESCE($1::timestamptz, now())::timestamptz(3) AS now,
     EXISTS (SELECT 1 FROM unnest($3::text[]) AS l (lane) CROSS JOIN LATERAL (
       SELECT 1 FROM ready_queue q WHERE q.lane = l.lane LIMIT 1) g) AS gates,
     (SELECT json_agg(json_build_object('runSeq', r.seq, 'reason', r.cancelling, 'held', EXISTS (
        SELECT 1 FROM ${IN_FLIGHT_ROWS("WHERE run_seq = r.seq")}
        WHERE t.holder = $2::uuid AND t.status IN ('dispatched', 'running'))))
      FROM runs r WHERE r.cancelling IS NOT NULL AND r.status IN ('pending', 'running')) AS cancelling,
     (SELECT array_agg(s.attempt_id ORDER BY s.task_id) FROM stop_requests s WHERE s.holder = $2::uuid) AS stopped`,
)

export interface PendingWork {
  /** The instant of this transaction. */
  now: string
  /** Something is ready for the gate. */
  gates: boolean
  /** Milliseconds until something is due, or null. */
  due: number | null
  /** Runs that are being cancelled; `held`: this holder has live attempts of it. */
  cancelling: { runSeq: number; reason: CancelReason; held: boolean }[]
  /** Live attempts of this holder whose job was cancelled or deleted, or that lie in a group whose time is over. */
  stopped: AttemptId[]
}

export const pollPendingWork = async (
  tx: SqlRunner,
  now: string | null,
  batch: Pick<Batch, "holder" | "gate">,
): Promise<PendingWork> => {
  type Row = Omit<PendingWork, "cancelling" | "stopped"> & { [Key in "cancelling" | "stopped"]: PendingWork[Key] | null }
  const lanes = anyTextParam(batch.gate.lanes)
  const [row] = await tx.run<Row>(LOOK, [now, batch.holder, lanes, batch.gate.limit > 0 ? lanes : "{}"])
  return { ...row!, cancelling: row!.cancelling ?? [], stopped: row!.stopped ?? [] }
}
