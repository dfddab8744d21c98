// Creates the instances of a fan-out, tasks or groups, in chunks under the container's fence. Instances that cannot get a slot are
// inserted parked, so that 100,000 instances under a limit of 4 are not read one by one; the caller has locked those limits.
//
// Instances of an earlier expansion (before a user's retry) are reset in place; those beyond the new total are deleted.

import type { LimitState } from "../../../core/rules/claims/admit.ts"
import { readyUnderLimits } from "../../../core/rules/claims/slots.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { instancePath, toJson } from "../../shared/codec.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { deleteFrom, ENTRY, insertInto, READINESS } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { CHILDLESS, COUNTS, FORGET_TRANSACTIONS, HAS_ATTEMPT, RESET_COLUMNS, SUPERSEDE_FROM, UNCOUNT } from "../runs/reset.ts"
import type { Expand } from "./coalesce-changes.ts"
import { COUNT_CHILDREN } from "./container.ts"

/**
 * The first `ready` instances of the chunk are ready, the others parked under the limit `parkedUnder`. `pathPrefix`: path of an instance
 * without its index.
 */
const EXPAND = statement(
  "expand",
  `WITH ${COUNT_CHILDREN("fan")}, old AS (
     SELECT t.* FROM container c CROSS JOIN generate_series(:offset, :offset + :size - 1) AS i (index)
     JOIN tasks t ON t.run_seq = c.run_seq AND t.node = c.node AND t.path = :pathPrefix::text || i.index
     WHERE EXISTS (SELECT 1 FROM tasks first WHERE first.run_seq = c.run_seq AND first.node = c.node AND first.path = :pathPrefix || :offset)
   ), history AS (
     ${SUPERSEDE_FROM} old t WHERE ${HAS_ATTEMPT}
   ), forgotten AS (
     ${FORGET_TRANSACTIONS("old")}
   ), created AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, node, kind, parent_id, path, upstream_pending, lane, priority, limits, item, label, parked,
       inner_run)
     SELECT c.run_seq, c.workflow_id, c.hook, c.node, :kind::text, c.id, :pathPrefix || (:offset + i.number - 1), 0, :lane::text, :priority::smallint,
       :limits::bigint[], i.item, nullif(concat_ws(' / ', c.label, i.label), ''), CASE WHEN i.number > :ready::int THEN :parkedUnder::bigint END, c.run_seq
     FROM container c CROSS JOIN unnest(:items::text[], :labels::text[]) WITH ORDINALITY AS i (item, label, number) ORDER BY i.number
     ON CONFLICT (run_seq, node, path) DO UPDATE SET ${RESET_COLUMNS}, ${CHILDLESS}, parent_id = excluded.parent_id, lane = excluded.lane,
       priority = excluded.priority, limits = excluded.limits, item = excluded.item, label = excluded.label, parked = excluded.parked,
       inner_run = excluded.inner_run
     RETURNING ${READINESS("tasks")}
   ), enqueued AS (
     ${insertInto("ready_queue", "created")}
   ), counted AS (
     UPDATE runs r SET tasks_total = r.tasks_total + :size - o.total, ${UNCOUNT}
     FROM container c CROSS JOIN (SELECT ${COUNTS} FROM old t) o WHERE r.seq = c.run_seq AND NOT c.hook AND :kind = 'task'
   )
   SELECT id FROM container`,
)

/** Deletes children that containers had before a retry and did not create again, and all rows below those. */
const DELETE_OLD_CHILDREN = statement(
  "expand_delete_old",
  `WITH RECURSIVE container AS (
     SELECT c.id, c.kind, c.children_created, p.prefix
     FROM tasks c CROSS JOIN LATERAL (SELECT CASE WHEN c.path = '' THEN '' ELSE c.path || '.' END AS prefix) p
     WHERE c.id = ANY (:containers::bigint[]) AND CASE c.kind
       WHEN 'fan' THEN EXISTS (
         SELECT 1 FROM tasks t WHERE t.run_seq = c.run_seq AND t.node = c.node AND t.path = p.prefix || c.children_created)
       ELSE c.children_created = 0 END
   ), to_delete AS (
     SELECT t.id FROM container c JOIN tasks t ON t.parent_id = c.id
     WHERE c.kind = 'group' OR substr(t.path, length(c.prefix) + 1)::int >= c.children_created
     UNION ALL SELECT t.id FROM to_delete d JOIN tasks t ON t.parent_id = d.id
   ), deleted AS (
     DELETE FROM tasks t USING to_delete d WHERE t.id = d.id RETURNING ${ENTRY("t")}, t.hook, t.kind, t.status
   ), dequeued AS (
     ${deleteFrom("ready_queue", "deleted")}
   ), deleted_attempts AS (
     DELETE FROM attempts a USING deleted d WHERE a.task_id = d.id
   ), deleted_steps AS (
     DELETE FROM steps s USING deleted d WHERE s.task_id = d.id
   )
   UPDATE runs r SET tasks_total = r.tasks_total - o.total, ${UNCOUNT}
   FROM (SELECT t.run_seq, ${COUNTS} FROM deleted t WHERE NOT t.hook AND t.kind = 'task' GROUP BY t.run_seq) o
   WHERE r.seq = o.run_seq`,
)

export interface ExpandInput {
  inFlight: CachedAttempt
  change: Expand
  /** Ids of the limits of each instance. */
  limits: readonly number[]
  /** State of the limits, locked. */
  states: ReadonlyMap<number, LimitState>
  /** Kind of the instances. */
  kind: "task" | "group"
}

/** Creates a chunk of instances. Returns whether the fence held. */
export const expandRow = async (tx: Tx, { inFlight, change, limits, states, kind }: ExpandInput): Promise<boolean> => {
  const { total, offset, items } = change
  if (items.length === 0 || offset + items.length > total) return false
  const { ready, parkedUnder } = readyUnderLimits(limits, (id) => states.get(id)!, items.length)
  const texts = items.map(toJson)
  const containers = await tx.run(EXPAND, {
    row: change.row,
    attempt: change.attemptId,
    total,
    offset,
    size: items.length,
    pathPrefix: instancePath(inFlight.path, 0).slice(0, -1),
    // One row per item, also when all items are null.
    items: texts.every((text) => text === null) ? `{${texts.map(() => "NULL").join(",")}}` : texts,
    labels: change.labels ?? null,
    lane: change.lane,
    priority: change.priority,
    limits: limits.length === 0 ? null : limits,
    ready,
    parkedUnder,
    gateLane: gateLane({ id: inFlight.runId, private: inFlight.private, rootRunId: inFlight.rootRunId }),
    kind,
  })
  return containers.length > 0
}

export const deleteOldChildren = async (tx: Tx, containers: readonly number[]): Promise<void> => {
  if (containers.length > 0) await tx.run(DELETE_OLD_CHILDREN, { containers })
}
