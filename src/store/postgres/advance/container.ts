// What an expansion and the opening of a group share: children are made in chunks under the container's fence; with the last
// chunk it waits for them.

import { REMOVE_IN_FLIGHT, ENQUEUE, READINESS } from "../claim/ready-queue.ts"

/** $1 now, $2 row, $3 attempt, $4 total, $5 offset, $6 how many children this chunk makes. */
export const MADE = (kind: "fan" | "group", lane: string): string => `
     UPDATE tasks t SET children_created = $5::int + $6::int, children_total = $4::int,
       children_pending = CASE WHEN $5 = 0 THEN $4 ELSE t.children_pending END,
       children_failed = CASE WHEN $5 = 0 THEN 0 ELSE t.children_failed END,
       started_at = CASE WHEN $5 = 0 THEN COALESCE($1::timestamptz, now()) ELSE t.started_at END,
       status = CASE WHEN $5 + $6 = $4 AND ($5 = 0 OR t.children_pending > 0) THEN 'running' ELSE 'pending' END,
       lane = CASE WHEN $5 + $6 = $4 THEN ${lane} ELSE t.lane END,
       attempt_id = CASE WHEN $5 + $6 = $4 THEN NULL ELSE t.attempt_id END,
       holder = CASE WHEN $5 + $6 = $4 THEN NULL ELSE t.holder END
     WHERE t.id = $2::bigint AND t.attempt_id = $3::uuid AND t.status = 'pending' AND t.kind = '${kind}' AND t.children_created = $5
       AND ($5 = 0 OR t.children_total = $4)
     RETURNING ${READINESS("t")}, t.node, t.path, t.hook, t.holder IS NULL AS made`

/** What MADE, as `container`, does to the lists. */
export const MADE_LISTED = `listed AS (
     ${ENQUEUE("container")}
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("(SELECT * FROM container WHERE made)")}
   )`
