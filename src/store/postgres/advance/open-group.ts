// The tasks of a group, made in chunks under the group's fence, at its path. The group takes its slots with the first chunk; one
// that finds no slot is parked, out of the index that the gate reads, until one is free. The caller has locked the limits.
//
// An earlier opening (before a user's retry) left its rows: they are reset in place. An open change without rows is about a group
// that a retry goes on with: its rows are there, and are held back until it has its slots again.

import type { LimitState } from "../../../core/rules/admit.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import type { Limit } from "../../../core/model/row.ts"
import { HELD_BACK } from "../../shared/bounds.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { MADE, MADE_LISTED } from "./container.ts"
import type { Open } from "./coalesce-changes.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { REMOVE_IN_FLIGHT, ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { CHILDLESS, COUNTS, FRESH, SHOWS_ATTEMPT, SUPERSEDE_FROM, UNCOUNT } from "../runs/reset.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

/** $1 now, $2 row, $3 attempt, $4 total, $5 offset, $6 how many, $7 the gate's lane, $8 … $13 the rows, $14 how many are listed. */
const OPEN = statement(
  "group_open",
  `WITH container AS (
     ${MADE("group", "$7::text")}
   ), ${MADE_LISTED}, old AS (
     SELECT t.* FROM container c CROSS JOIN unnest($8::int[]) AS n (node)
     JOIN tasks t ON t.run_seq = c.run_seq AND t.node = n.node AND t.path = c.path
     WHERE EXISTS (SELECT 1 FROM tasks f WHERE f.run_seq = c.run_seq AND f.node = ($8::int[])[1] AND f.path = c.path)
   ), history AS (
     ${SUPERSEDE_FROM} old t WHERE ${SHOWS_ATTEMPT}
   ), made AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, parent_id, path, node, kind, upstream_pending, lane, priority, limits,
       inner_run)
     SELECT c.run_seq, c.workflow_id, c.hook, c.id, c.path, i.node, i.kind, i.upstream_pending, i.lane, i.priority, i.limits::bigint[],
       c.run_seq
     FROM container c CROSS JOIN unnest($8::int[], $9::text[], $10::int[], $11::text[], $12::smallint[], $13::text[])
       WITH ORDINALITY AS i (node, kind, upstream_pending, lane, priority, limits, place) ORDER BY i.place
     ON CONFLICT (run_seq, node, path) DO UPDATE SET ${FRESH}, ${CHILDLESS}, parked = NULL, parent_id = excluded.parent_id,
       upstream_pending = excluded.upstream_pending, upstream_failed = 0, upstream_unmet = 0, upstream_waived = 0, lane = excluded.lane,
       priority = excluded.priority, limits = excluded.limits, inner_run = excluded.inner_run
     RETURNING ${READINESS("tasks")}
   ), made_ready AS (
     ${ENQUEUE("made")}
   ), counted AS (
     UPDATE runs r SET tasks_total = r.tasks_total + $14::int - o.total, ${UNCOUNT}
     FROM container c CROSS JOIN (SELECT ${COUNTS} FROM old t WHERE t.kind = 'task') o WHERE r.seq = c.run_seq
   )
   SELECT id FROM container`,
)

const PARK = statement(
  "group_park",
  `WITH parked AS (
     UPDATE tasks SET parked = $3::bigint, attempt_id = NULL, holder = NULL
     WHERE id = $1::bigint AND attempt_id = $2::uuid AND status = 'pending' AND kind = 'group' AND started_at IS NULL
     RETURNING run_seq, id
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("parked")}
   )
   SELECT id FROM parked`,
)

/** $1 now, $2 row, $3 attempt, $4 total, $5 the gate's lane. What is below, down to groups that wait for slots of their own. */
const GO_ON = statement(
  "group_go_on",
  `WITH RECURSIVE container AS (
     UPDATE tasks t SET started_at = COALESCE($1::timestamptz, now()), attempt_id = NULL, holder = NULL, lane = $5::text,
       status = CASE WHEN t.children_pending = 0 THEN 'pending' ELSE 'running' END
     WHERE t.id = $2::bigint AND t.attempt_id = $3::uuid AND t.status = 'pending' AND t.kind = 'group' AND t.started_at IS NULL
       AND t.children_created = $4::int AND t.children_total = $4
     RETURNING ${READINESS("t")}
   ), below (id, is_open) AS (
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM container c JOIN tasks t ON t.parent_id = c.id
     WHERE t.finished_at IS NULL
     UNION ALL
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM below b JOIN tasks t ON t.parent_id = b.id
     WHERE b.is_open AND t.finished_at IS NULL
   ), released AS (
     UPDATE tasks t SET parked = NULL FROM below b WHERE t.id = b.id AND t.parked = ${HELD_BACK} RETURNING ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("(SELECT * FROM container UNION ALL SELECT * FROM released) r")}
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("container")}
   )
   SELECT id FROM container`,
)

export type Opened = "made" | "parked" | "refused"

/** Counts the slots that it takes into `states`; the caller writes them down once it knows what was made. */
export const openGroup = async (
  tx: SqlRunner,
  now: string | null,
  held: InFlightAttempt,
  change: Open,
  idsOf: (limits: readonly Limit[]) => number[],
  states: Map<number, LimitState>,
): Promise<Opened> => {
  const { row, attemptId, total, offset, rows } = change
  const goesOn = rows.length === 0 && offset === total
  if (!goesOn && (rows.length === 0 || offset + rows.length > total)) return "refused"
  const full = offset > 0 && !goesOn ? undefined : takeSlots(idsOf(change.limits), states)
  if (full !== undefined) return (await tx.run(PARK, [row, attemptId, full])).length > 0 ? "parked" : "refused"
  const lane = gateLane({ id: held.runId, private: held.private, rootRunId: held.rootRunId })
  if (goesOn) return (await tx.run(GO_ON, [now, row, attemptId, total, lane])).length > 0 ? "made" : "refused"
  const limitsOf = (limits: readonly Limit[]): string | null => (limits.length === 0 ? null : arrayParam(idsOf(limits)))
  const made = await tx.run(OPEN, [
    now,
    row,
    attemptId,
    total,
    offset,
    rows.length,
    lane,
    arrayParam(rows.map(({ node }) => node)),
    arrayParam(rows.map(({ kind }) => kind)),
    arrayParam(rows.map(({ upstreamPending }) => upstreamPending)),
    textArrayParam(rows.map(({ lane }) => lane)),
    arrayParam(rows.map(({ priority }) => priority)),
    textArrayParam(rows.map(({ limits }) => limitsOf(limits))),
    rows.filter(({ kind }) => kind === "task").length,
  ])
  return made.length > 0 ? "made" : "refused"
}

/** The limit that is full, if there is one. */
const takeSlots = (ids: readonly number[], states: Map<number, LimitState>): number | undefined => {
  const full = ids.find((id) => states.get(id)!.used >= states.get(id)!.cap)
  if (full === undefined) for (const id of ids) states.set(id, { ...states.get(id)!, used: states.get(id)!.used + 1 })
  return full
}
