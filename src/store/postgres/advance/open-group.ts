// Creates the tasks of a group in chunks under the group's fence, at its path. The group uses its slots with the first chunk; a group
// that finds no slot is parked until one is free. The caller has locked the limits.
//
// Rows of an earlier opening (before a user's retry) are reset in place. A change without rows continues a group after a retry: its rows
// exist, and are held back until it has its slots again.

import { PARKED_BY_GROUP } from "../../../core/rules/claims/admit.ts"
import { firstFull } from "../../../core/rules/claims/slots.ts"
import type { LimitState } from "../../../core/rules/claims/admit.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import type { Limit } from "../../../core/model/row.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { arrayParam } from "../connection/array-params.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { CHILDLESS, COUNTS, FORGET_TRANSACTIONS, HAS_ATTEMPT, RESET_COLUMNS, SUPERSEDE_FROM, UNCOUNT } from "../runs/reset.ts"
import type { OpenGroup } from "./coalesce-changes.ts"
import { COUNT_CHILDREN } from "./container.ts"

const OPEN = statement(
  "group_open",
  `WITH ${COUNT_CHILDREN("group")}, old AS (
     SELECT t.* FROM container c CROSS JOIN unnest(:nodes::int[]) AS n (node)
     JOIN tasks t ON t.run_seq = c.run_seq AND t.node = n.node AND t.path = c.path
     WHERE EXISTS (SELECT 1 FROM tasks first WHERE first.run_seq = c.run_seq AND first.node = (:nodes)[1] AND first.path = c.path)
   ), history AS (
     ${SUPERSEDE_FROM} old t WHERE ${HAS_ATTEMPT}
   ), forgotten AS (
     ${FORGET_TRANSACTIONS("old")}
   ), created AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, parent_id, path, label, node, kind, upstream_pending, lane, priority, limits,
       inner_run)
     SELECT c.run_seq, c.workflow_id, c.hook, c.id, c.path, c.label, i.node, i.kind, i.upstream_pending, i.lane, i.priority, i.limits::bigint[],
       c.run_seq
     FROM container c CROSS JOIN unnest(:nodes, :kinds::text[], :pendingCounts::int[], :lanes::text[], :priorities::smallint[], :limits::text[])
       WITH ORDINALITY AS i (node, kind, upstream_pending, lane, priority, limits, number) ORDER BY i.number
     ON CONFLICT (run_seq, node, path) DO UPDATE SET ${RESET_COLUMNS}, ${CHILDLESS}, parked = NULL, parent_id = excluded.parent_id,
       upstream_pending = excluded.upstream_pending, upstream_failed = 0, upstream_unmet = 0, upstream_waived = 0, lane = excluded.lane,
       priority = excluded.priority, limits = excluded.limits, label = excluded.label, inner_run = excluded.inner_run
     RETURNING ${READINESS("tasks")}
   ), enqueued AS (
     ${insertInto("ready_queue", "created")}
   ), counted AS (
     UPDATE runs r SET tasks_total = r.tasks_total + :tasks::int - o.total, ${UNCOUNT}
     FROM container c CROSS JOIN (SELECT ${COUNTS} FROM old t WHERE t.kind = 'task') o WHERE r.seq = c.run_seq
   )
   SELECT id FROM container`,
)

const PARK = statement(
  "group_park",
  `WITH parked AS (
     UPDATE tasks SET parked = :full::bigint, attempt_id = NULL, holder = NULL
     WHERE id = :row::bigint AND attempt_id = :attempt::uuid AND status = 'pending' AND kind = 'group' AND started_at IS NULL
     RETURNING run_seq, id
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "parked")}
   )
   SELECT id FROM parked`,
)

/** Releases all rows below the group, down to groups that wait for slots of their own. */
const CONTINUE = statement(
  "group_continue",
  `WITH RECURSIVE container AS (
     UPDATE tasks t SET started_at = ${NOW}, attempt_id = NULL, holder = NULL, lane = :gateLane::text,
       status = CASE WHEN t.children_pending = 0 THEN 'pending' ELSE 'running' END
     WHERE t.id = :row::bigint AND t.attempt_id = :attempt::uuid AND t.status = 'pending' AND t.kind = 'group' AND t.started_at IS NULL
       AND t.children_created = :total::int AND t.children_total = :total
     RETURNING ${READINESS("t")}
   ), below (id, is_open) AS (
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM container c JOIN tasks t ON t.parent_id = c.id
     WHERE t.finished_at IS NULL
     UNION ALL
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM below b JOIN tasks t ON t.parent_id = b.id
     WHERE b.is_open AND t.finished_at IS NULL
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM below b WHERE t.id = b.id AND t.parked = ${PARKED_BY_GROUP} RETURNING ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "(SELECT * FROM container UNION ALL SELECT * FROM unparked) r")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "container")}
   )
   SELECT id FROM container`,
)

/** Result of a chunk: its children were created, the container was parked, or its fence was lost. */
export type ChunkResult = "created" | "parked" | "rejected"

export interface OpenGroupInput {
  inFlight: CachedAttempt
  change: OpenGroup
  /** Returns the ids of limits. */
  idsOf: (limits: readonly Limit[]) => number[]
  /** State of the limits, locked. Counts the slots that the group uses; the caller writes them when it knows what was created. */
  states: Map<number, LimitState>
}

export const openGroup = async (tx: Tx, { inFlight, change, idsOf, states }: OpenGroupInput): Promise<ChunkResult> => {
  const { row, attemptId: attempt, total, offset, rows } = change
  const continues = rows.length === 0 && offset === total
  if (!continues && (rows.length === 0 || offset + rows.length > total)) return "rejected"
  const full = takesSlots(change) ? takeSlots(idsOf(change.limits), states) : undefined
  if (full !== undefined) return (await tx.run(PARK, { row, attempt, full })).length > 0 ? "parked" : "rejected"
  const lane = gateLane({ id: inFlight.runId, private: inFlight.private, rootRunId: inFlight.rootRunId })
  const containers = await (continues
    ? tx.run(CONTINUE, { row, attempt, total, gateLane: lane })
    : tx.run(OPEN, {
        row,
        attempt,
        total,
        offset,
        size: rows.length,
        gateLane: lane,
        nodes: rows.map(({ node }) => node),
        kinds: rows.map(({ kind }) => kind),
        pendingCounts: rows.map(({ upstreamPending }) => upstreamPending),
        lanes: rows.map((child) => child.lane),
        priorities: rows.map(({ priority }) => priority),
        limits: rows.map(({ limits }) => arrayParam(idsOf(limits))),
        tasks: rows.filter(({ kind }) => kind === "task").length,
      }))
  return containers.length > 0 ? "created" : "rejected"
}

/** Returns whether the change takes the slots of its group: with its first rows, or when it continues with existing ones. */
export const takesSlots = ({ offset, rows }: OpenGroup): boolean => offset === 0 || rows.length === 0

/** Counts one slot of each limit as used, unless one is full; returns that one. */
const takeSlots = (ids: readonly number[], states: Map<number, LimitState>): number | undefined => {
  const full = firstFull(ids, (id) => states.get(id)!)
  if (full === undefined) for (const id of ids) states.set(id, { ...states.get(id)!, used: states.get(id)!.used + 1 })
  return full
}
