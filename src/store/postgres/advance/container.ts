// What the expansion of a fan-out and the opening of a group share: children are created in chunks under the container's fence, and
// with the last chunk the container waits for them.

import { sourceState } from "../../shared/source-state.ts"
import { deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { NOW } from "../connection/store-clock.ts"

const SOURCE = { fan: "expand", group: "open_group" } as const

/**
 * Counts the children of a chunk in the container. `released`: it was the last chunk, and the gate's claim is over. Parameters: row,
 * attempt, total, offset, size (of the chunk), gateLane.
 */
export const COUNT_CHILDREN = (kind: "fan" | "group"): string => `container AS (
     UPDATE tasks t SET children_created = :offset::int + :size::int, children_total = :total::int,
       children_pending = CASE WHEN chunk.is_first THEN :total ELSE t.children_pending END,
       children_failed = CASE WHEN chunk.is_first THEN 0 ELSE t.children_failed END,
       started_at = CASE WHEN chunk.is_first THEN ${NOW} ELSE t.started_at END,
       status = CASE WHEN chunk.is_last AND (chunk.is_first OR t.children_pending > 0) THEN 'running' ELSE 'pending' END,
       lane = CASE WHEN chunk.is_last THEN :gateLane::text ELSE t.lane END,
       attempt_id = CASE WHEN chunk.is_last THEN NULL ELSE t.attempt_id END,
       holder = CASE WHEN chunk.is_last THEN NULL ELSE t.holder END
     FROM (SELECT :offset::int = 0 AS is_first, :offset::int + :size::int = :total::int AS is_last) chunk
     WHERE t.id = :row::bigint AND t.attempt_id = :attempt::uuid AND ${sourceState(SOURCE[kind], "t")}
       AND t.children_created = :offset AND (:offset = 0 OR t.children_total = :total)
     RETURNING ${READINESS("t")}, t.node, t.path, t.label, t.hook, t.holder IS NULL AS released
   ), enqueued_container AS (
     ${insertInto("ready_queue", "container")}
   ), container_not_in_flight AS (
     ${deleteFrom("in_flight", "(SELECT * FROM container WHERE released)")}
   )`
