// Instances of a fan-out, tasks or groups, made in chunks under the container's fence. What cannot get a slot is inserted parked, so that
// 100,000 instances under a limit of 4 are not looked at one by one; the caller has locked those limits.
//
// An earlier expansion (before a user's retry) left its instances: they are reset in place, and those beyond the new total go.

import type { LimitState } from "../../../core/rules/admit.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { instancePath, toJson } from "../../shared/codec.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { MADE, MADE_LISTED } from "./container.ts"
import type { Expand } from "./coalesce-changes.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { ENTRY, ENQUEUE, READINESS, DEQUEUE } from "../claim/ready-queue.ts"
import { CHILDLESS, COUNTS, FRESH, SHOWS_ATTEMPT, SUPERSEDE_FROM, UNCOUNT } from "../runs/reset.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

/** $1 now, $2 row, $3 attempt, $4 total, $5 offset, $6 how many, $14 the gate's lane. */
const EXPAND = statement(
  "expand",
  `WITH container AS (
     ${MADE("fan", "$14::text")}
   ), ${MADE_LISTED}, old AS (
     SELECT t.* FROM container c CROSS JOIN generate_series($5, $5 + $6 - 1) AS i (place)
     JOIN tasks t ON t.run_seq = c.run_seq AND t.node = c.node AND t.path = $7::text || i.place
     WHERE EXISTS (SELECT 1 FROM tasks f WHERE f.run_seq = c.run_seq AND f.node = c.node AND f.path = $7 || $5)
   ), history AS (
     ${SUPERSEDE_FROM} old t WHERE ${SHOWS_ATTEMPT}
   ), made AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, node, kind, parent_id, path, upstream_pending, lane, priority, limits, item, parked,
       inner_run)
     SELECT c.run_seq, c.workflow_id, c.hook, c.node, $15::text, c.id, $7 || ($5 + i.place - 1), 0, $9::text, $10::smallint,
       $11::bigint[], i.item, CASE WHEN i.place > $12::int THEN $13::bigint END, c.run_seq
     FROM container c CROSS JOIN unnest($8::text[]) WITH ORDINALITY AS i (item, place) ORDER BY i.place
     ON CONFLICT (run_seq, node, path) DO UPDATE SET ${FRESH}, ${CHILDLESS}, parent_id = excluded.parent_id, lane = excluded.lane,
       priority = excluded.priority, limits = excluded.limits, item = excluded.item, parked = excluded.parked, inner_run = excluded.inner_run
     RETURNING ${READINESS("tasks")}
   ), made_ready AS (
     ${ENQUEUE("made")}
   ), counted AS (
     UPDATE runs r SET tasks_total = r.tasks_total + $6 - o.total, ${UNCOUNT}
     FROM container c CROSS JOIN (SELECT ${COUNTS} FROM old t) o WHERE r.seq = c.run_seq AND NOT c.hook AND $15 = 'task'
   )
   SELECT id FROM container`,
)

/** Children that their container has not made this time, left from before a retry, and whatever is below them. */
const DROP = statement(
  "expand_drop",
  `WITH RECURSIVE container AS (
     SELECT c.id, c.kind, c.children_created, p.prefix
     FROM tasks c CROSS JOIN LATERAL (SELECT CASE WHEN c.path = '' THEN '' ELSE c.path || '.' END AS prefix) p
     WHERE c.id = ANY ($1::bigint[]) AND CASE c.kind
       WHEN 'fan' THEN EXISTS (
         SELECT 1 FROM tasks t WHERE t.run_seq = c.run_seq AND t.node = c.node AND t.path = p.prefix || c.children_created)
       ELSE c.children_created = 0 END
   ), doomed AS (
     SELECT t.id FROM container c JOIN tasks t ON t.parent_id = c.id
     WHERE c.kind = 'group' OR substr(t.path, length(c.prefix) + 1)::int >= c.children_created
     UNION ALL SELECT t.id FROM doomed d JOIN tasks t ON t.parent_id = d.id
   ), gone AS (
     DELETE FROM tasks t USING doomed d WHERE t.id = d.id RETURNING ${ENTRY("t")}, t.hook, t.kind, t.status
   ), unlisted AS (
     ${DEQUEUE("gone")}
   ), forgotten AS (
     DELETE FROM attempts a USING gone g WHERE a.task_id = g.id
   )
   UPDATE runs r SET tasks_total = r.tasks_total - o.total, ${UNCOUNT}
   FROM (SELECT t.run_seq, ${COUNTS} FROM gone t WHERE NOT t.hook AND t.kind = 'task' GROUP BY t.run_seq) o
   WHERE r.seq = o.run_seq`,
)

/** True when the fence held. */
export const expandRow = async (
  tx: SqlRunner,
  now: string | null,
  held: InFlightAttempt,
  change: Expand,
  limits: readonly number[],
  states: ReadonlyMap<number, LimitState>,
  kind: "task" | "group",
): Promise<boolean> => {
  const { total, offset, items } = change
  if (items.length === 0 || offset + items.length > total) return false
  const { room, under } = smallestRoom(limits, states, items.length)
  const made = await tx.run(EXPAND, [
    now,
    change.row,
    change.attemptId,
    total,
    offset,
    items.length,
    instancePath(held.path, 0).slice(0, -1),
    textArrayParam(items.map(toJson)) ?? `{${items.map(() => "NULL").join(",")}}`,
    change.lane,
    change.priority,
    limits.length === 0 ? null : arrayParam(limits),
    room,
    under,
    gateLane({ id: held.runId, private: held.private, rootRunId: held.rootRunId }),
    kind,
  ])
  return made.length > 0
}

export const dropChildren = (tx: SqlRunner, containers: readonly number[]): Promise<unknown> =>
  tx.run(DROP, [anyParam(containers)])

/** How many of the new instances may be ready, and the limit under which the others wait. */
const smallestRoom = (
  limits: readonly number[],
  states: ReadonlyMap<number, LimitState>,
  wanted: number,
): { room: number; under: number | null } => {
  let room = wanted
  let under: number | null = null
  for (const id of limits) {
    const state = states.get(id)
    const free = state === undefined ? 0 : Math.max(0, state.cap - state.used)
    if (free < room) [room, under] = [free, id]
  }
  return { room, under }
}
