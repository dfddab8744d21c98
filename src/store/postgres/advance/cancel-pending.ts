// Finishes the pending rows of runs that are being cancelled, a bounded number per transaction. The engine stops attempts in flight;
// containers with instances stay until those have ended, for the gate to gather. Edges are not followed: all downstream rows are
// pending in the same run, and are cancelled too.

import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import { rootNodes } from "../../../core/model/workflow.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { IS_CANCELLABLE, IS_HALF_CREATED } from "../../shared/cancellable.ts"
import { timedOut } from "../../../core/rules/messages.ts"
import type { CancelReason, RowKind } from "../../contract/store.ts"
import { deleteFrom, ENTRY, insertInto, READINESS } from "../claim/ready-queue.ts"
import { pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "./count-down.ts"
import { resumeCancelled } from "./waiting.ts"

/** Last part of a statement: cancels the pending rows of the CTE `to_cancel` (id, parked). */
export const CANCEL_ROWS = `finished AS (
     UPDATE tasks t SET status = 'cancelled', parked = NULL, available_at = NULL, inner_run = NULL,
       finished_at = ${NOW}
     FROM to_cancel d WHERE t.id = d.id
     RETURNING ${ENTRY("t")}, t.node, t.path, t.parent_id, t.hook, t.kind, t.status, false AS allowed_failure, t.attempt, t.limits,
       d.parked IS NULL AND t.upstream_pending = 0 AS was_ready
   ), dequeued AS (
     ${deleteFrom("ready_queue", "finished")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT run_seq, node, path, kind, attempt, limits, was_ready FROM finished ORDER BY id`

/** Returns the last part of a statement: containers of this set (id) that are half created wait only for the children that exist. */
export const STOP_CREATING = (containers: string): string => `stopped AS (
     UPDATE tasks t SET children_pending = t.children_pending - (t.children_total - t.children_created),
       status = CASE WHEN t.children_pending = t.children_total - t.children_created THEN 'pending' ELSE 'running' END, parked = NULL
     FROM ${containers} c WHERE t.id = c.id AND ${IS_HALF_CREATED}
     RETURNING ${READINESS("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "stopped")}
   )
   ${insertInto("ready_queue", "stopped")}`

const BEGIN = statement(
  "cancel_begin",
  `UPDATE runs r SET cancelling = :reason, error = COALESCE(c.error, r.error) FROM unnest(:runs::bigint[], :errors::text[]) AS c (seq, error)
   WHERE r.seq = c.seq AND r.cancelling IS NULL`,
)

/** Unparks containers of paused runs, so that the gate can gather them. */
const UNPARK_CONTAINERS = statement(
  "cancel_unpark",
  `WITH unparked AS (
     UPDATE tasks t SET parked = NULL
     WHERE t.parked = ${PARKED_BY_PAUSE} AND t.run_seq = ANY (:runs::bigint[]) AND t.status = 'pending' AND t.kind <> 'task' AND t.children_created > 0
     RETURNING ${READINESS("t")}
   )
   ${insertInto("ready_queue", "unparked")}`,
)

/** Marks runs as being cancelled. The caller has locked them. */
export const beginCancel = async (
  tx: Tx,
  runs: readonly { seq: number; version_id: number }[],
  reason: CancelReason,
): Promise<void> => {
  await tx.workflows.load(runs.map((run) => run.version_id))
  const errors = runs.map((run) => (reason === "timeout" ? timedOut(tx.workflows.getLoaded(run.version_id).timeoutMs) : null))
  const seqs = runs.map((run) => run.seq)
  const updated = tx.run(BEGIN, { reason, runs: seqs, errors })
  const unparked = tx.run(UNPARK_CONTAINERS, { runs: seqs })
  await updated
  await unparked
}

/** Skips runs that another transaction has locked: it cancels them. */
const LOCK = statement(
  "cancel_lock",
  `SELECT seq, version_id FROM runs WHERE seq = ANY (:runs::bigint[]) AND status = 'running' AND cancelling IS NOT NULL
   ORDER BY seq FOR UPDATE SKIP LOCKED`,
)

const CANCEL_PENDING = statement(
  "cancel_pending",
  `WITH instances AS MATERIALIZED (
     SELECT t.id, t.parked FROM unnest(:runs::bigint[]) AS r (seq) CROSS JOIN LATERAL (
       SELECT t.id, t.parked FROM tasks t
       WHERE t.inner_run = r.seq AND ${IS_CANCELLABLE}
       ORDER BY t.inner_run, t.id LIMIT ${MAX_CANCEL} FOR UPDATE SKIP LOCKED
     ) t
   ), top AS MATERIALIZED (
     SELECT t.id, t.parked FROM unnest(:nodeRuns::bigint[], :nodes::int[]) AS n (seq, node)
     JOIN tasks t ON t.run_seq = n.seq AND t.node = n.node AND t.path = ''
     WHERE ${IS_CANCELLABLE} FOR UPDATE OF t SKIP LOCKED
   ), to_cancel AS (
     SELECT * FROM (SELECT * FROM instances UNION ALL SELECT * FROM top) x LIMIT ${MAX_CANCEL}
   ), ${CANCEL_ROWS}`,
)

const STOP_CREATING_CHILDREN = statement(
  "cancel_stop_creating",
  `WITH containers AS (
     SELECT t.id FROM unnest(:nodeRuns::bigint[], :nodes::int[]) AS n (seq, node)
     JOIN tasks t ON t.run_seq = n.seq AND t.node = n.node AND t.path = '' AND ${IS_HALF_CREATED}
     UNION ALL
     SELECT t.id FROM unnest(:runs::bigint[]) AS r (seq) JOIN tasks t ON t.inner_run = r.seq AND ${IS_HALF_CREATED}
   ), ${STOP_CREATING("containers")}`,
)

export interface CancelledRow {
  run_seq: number
  node: number
  path: string
  kind: RowKind
  attempt: number
  limits: number[] | null
  was_ready: boolean
}

export interface CancelResult {
  rows: CancelledRow[]
  /** Whether more rows may be left for the next transaction. */
  full: boolean
}

/** Cancels pending rows of these runs. */
export const cancelPending = async (tx: Tx, seqs: readonly number[]): Promise<CancelResult> => {
  const locked = await tx.run<{ seq: number; version_id: number }>(LOCK, { runs: seqs })
  if (locked.length === 0) return { rows: [], full: false }
  await tx.workflows.load(locked.map((run) => run.version_id))
  const nodes = locked.flatMap(({ seq, version_id }) =>
    rootNodes(tx.workflows.getLoaded(version_id)).map((node) => ({ seq, node })),
  )
  const runs = locked.map(({ seq }) => seq)
  const params = { runs, nodeRuns: nodes.map(({ seq }) => seq), nodes: nodes.map(({ node }) => node) }
  const stopped = tx.run(STOP_CREATING_CHILDREN, params)
  const cancelled = cancelRows(() => tx.run<CancelledRow>(CANCEL_PENDING, params))
  const resumed = pipelined(resumeCancelled(tx, runs))
  await stopped
  const rows = await cancelled
  return { rows, full: rows.length >= MAX_CANCEL || (await resumed) === MAX_CANCEL }
}

/** Repeats a statement that cancels rows, up to a bound: groups that wait for slots can be cancelled after their children. */
export const cancelRows = async (cancel: () => Promise<CancelledRow[]>): Promise<CancelledRow[]> => {
  const rows = await cancel()
  for (let found = rows.length; found > 0 && rows.length < MAX_CANCEL;) {
    const more = await cancel()
    rows.push(...more)
    found = more.length
  }
  return rows
}
