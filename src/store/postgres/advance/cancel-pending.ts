// Ends the pending rows of runs that are being cancelled, a bounded number a transaction. Live rows are left to the engine,
// which stops them; containers with instances are left until those have ended, for the gate to gather. Edges are not followed:
// everything below is pending in the same run, and is ended too.

import { rootNodes } from "../../../core/model/workflow.ts"
import { MAX_CANCEL } from "../../shared/bounds.ts"
import { timedOut } from "../../../core/rules/messages.ts"
import type { CancelReason } from "../../contract/store.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { ENTRY, ENQUEUE, READINESS, DEQUEUE } from "../claim/ready-queue.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "./count-down.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import { resumeCancelled } from "./waiting.ts"
import type { Workflows } from "../admin/workflows.ts"

/** The end of a statement whose CTE `doomed` holds rows that wait (id, parked): cancels them, at $1. */
export const END_DOOMED = `ended AS (
     UPDATE tasks t SET status = 'cancelled', parked = NULL, available_at = NULL, inner_run = NULL,
       finished_at = COALESCE($1::timestamptz, now())
     FROM doomed d WHERE t.id = d.id
     RETURNING ${ENTRY("t")}, t.node, t.path, t.parent_id, t.hook, t.kind, t.status, t.attempt, t.limits,
       d.parked IS NULL AND t.upstream_pending = 0 AS was_ready
   ), unlisted AS (
     ${DEQUEUE("ended")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT run_seq, node, path, attempt, limits, was_ready FROM ended ORDER BY id`

/** A container whose gate died in the middle of making its children. It is ready, or parked. */
export const HALF_MADE = `t.status = 'pending' AND t.attempt_id IS NULL AND t.kind <> 'task' AND t.started_at IS NOT NULL
  AND t.children_created < t.children_total AND t.children_pending > 0`

/** The end of a statement with a set (id) of such containers: what was made so far is all that they wait for. */
export const CUT_OFF = (containers: string): string => `off AS (
     UPDATE tasks t SET children_pending = t.children_pending - (t.children_total - t.children_created),
       status = CASE WHEN t.children_pending = t.children_total - t.children_created THEN 'pending' ELSE 'running' END, parked = NULL
     FROM ${containers} c WHERE t.id = c.id AND ${HALF_MADE}
     RETURNING ${READINESS("t")}
   ), unlisted AS (
     ${DEQUEUE("off")}
   )
   ${ENQUEUE("off")}`

const BEGIN = statement(
  "cancel_begin",
  `UPDATE runs r SET cancelling = $1, error = COALESCE(c.error, r.error) FROM unnest($2::bigint[], $3::text[]) AS c (seq, error)
   WHERE r.seq = c.seq AND r.cancelling IS NULL`,
)

/** A pause must not keep the gate from gathering what has ended. */
const UNPARK_CONTAINERS = statement(
  "cancel_unpark",
  `WITH unparked AS (
     UPDATE tasks t SET parked = NULL
     WHERE t.parked = 0 AND t.run_seq = ANY ($1::bigint[]) AND t.status = 'pending' AND t.kind <> 'task' AND t.children_created > 0
     RETURNING ${READINESS("t")}
   )
   ${ENQUEUE("unparked")}`,
)

/** The caller has locked the runs. */
export const beginCancel = async (
  tx: SqlRunner,
  workflows: Workflows,
  runs: readonly { seq: number; version_id: number }[],
  reason: CancelReason,
): Promise<void> => {
  await workflows.load(runs.map((run) => run.version_id))
  const errors = runs.map((run) => (reason === "timeout" ? timedOut(workflows.now(run.version_id).timeoutMs) : null))
  const seqs = arrayParam(runs.map((run) => run.seq))
  const begun = tx.run(BEGIN, [reason, seqs, textArrayParam(errors)])
  const unparked = tx.run(UNPARK_CONTAINERS, [seqs])
  await begun
  await unparked
}

/** Runs that another transaction works on are left to it. */
const LOCK = statement(
  "cancel_lock",
  `SELECT seq, version_id FROM runs WHERE seq = ANY ($1::bigint[]) AND status = 'running' AND cancelling IS NOT NULL
   ORDER BY seq FOR UPDATE SKIP LOCKED`,
)

const CANCEL = statement(
  "cancel",
  `WITH instances AS MATERIALIZED (
     SELECT t.id, t.parked FROM unnest($2::bigint[]) AS r (seq) CROSS JOIN LATERAL (
       SELECT t.id, t.parked FROM tasks t
       WHERE t.inner_run = r.seq AND t.status = 'pending' AND t.attempt_id IS NULL
         AND NOT (t.kind <> 'task' AND t.started_at IS NOT NULL)
       ORDER BY t.inner_run, t.id LIMIT ${MAX_CANCEL} FOR UPDATE SKIP LOCKED
     ) t
   ), top AS MATERIALIZED (
     SELECT t.id, t.parked FROM unnest($3::bigint[], $4::int[]) AS n (seq, node)
     JOIN tasks t ON t.run_seq = n.seq AND t.node = n.node AND t.path = ''
     WHERE t.status = 'pending' AND t.attempt_id IS NULL AND NOT (t.kind <> 'task' AND t.started_at IS NOT NULL)
     FOR UPDATE OF t SKIP LOCKED
   ), doomed AS (
     SELECT * FROM (SELECT * FROM instances UNION ALL SELECT * FROM top) x LIMIT ${MAX_CANCEL}
   ), ${END_DOOMED}`,
)

/** Unless a retry goes on with them. */
const CUT = statement(
  "cancel_cut",
  `WITH cut AS (
     SELECT t.id FROM unnest($2::bigint[], $3::int[]) AS n (seq, node)
     JOIN tasks t ON t.run_seq = n.seq AND t.node = n.node AND t.path = '' AND ${HALF_MADE}
     UNION ALL
     SELECT t.id FROM unnest($1::bigint[]) AS r (seq) JOIN tasks t ON t.inner_run = r.seq AND ${HALF_MADE}
   ), ${CUT_OFF("cut")}`,
)

export interface CancelledRow {
  run_seq: number
  node: number
  path: string
  attempt: number
  limits: number[] | null
  was_ready: boolean
}

/** `full`: there may be more for the next transaction. */
export const cancelPending = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
  seqs: readonly number[],
): Promise<{ rows: CancelledRow[]; full: boolean }> => {
  const runs = await tx.run<{ seq: number; version_id: number }>(LOCK, [anyParam(seqs)])
  if (runs.length === 0) return { rows: [], full: false }
  await workflows.load(runs.map((run) => run.version_id))
  const nodes = runs.flatMap(({ seq, version_id }) => rootNodes(workflows.now(version_id)).map((node) => ({ seq, node })))
  const places = [arrayParam(nodes.map(({ seq }) => seq)), arrayParam(nodes.map(({ node }) => node))]
  const cut = tx.run(CUT, [arrayParam(runs.map(({ seq }) => seq)), ...places])
  const rows = tx.run<CancelledRow>(CANCEL, [now, arrayParam(runs.map(({ seq }) => seq)), ...places])
  const woken = pipelined(
    resumeCancelled(
      tx,
      now,
      runs.map(({ seq }) => seq),
    ),
  )
  await cut
  return { rows: await rows, full: (await rows).length === MAX_CANCEL || (await woken) === MAX_CANCEL }
}
