// Claims from lanes and workflows by round robin. Lanes with the same position are served together: first their highest priority, of which
// each workflow gets the same share, beginning after the one that was served last. Positions alternate. Each lane gets at least one
// share. Workflows are found by skipping through the index, so one with 100,000 ready rows costs as much as one with ten.

import { MAX_SERVED } from "../../shared/bounds.ts"
import type { Tx } from "../tx.ts"
import { statement } from "../connection/statement.ts"
import {
  CHOOSE,
  CLAIM_CHOSEN,
  CLAIMER,
  type ClaimKind,
  claimParams,
  type ClaimReply,
  type ClaimRequest,
  LOCK_CANDIDATES,
} from "./candidates.ts"

const PRIORITY = (direction: "ASC" | "DESC"): string =>
  `(SELECT q.priority FROM ready_queue q WHERE q.lane = l.lane ORDER BY q.priority ${direction} LIMIT 1)`

const FIRST_WORKFLOW = (lane: string, condition = ""): string =>
  `(SELECT q.workflow_id FROM ready_queue q WHERE q.lane = ${lane}.lane AND q.priority = ${lane}.top ${condition}
     ORDER BY q.lane, q.priority DESC, q.workflow_id LIMIT 1)`

/** Selects the workflow with ready rows in the lane that follows `after`, or the first one. */
const NEXT_WORKFLOW = (lane: string, after: string): string =>
  `SELECT COALESCE(${FIRST_WORKFLOW(lane, `AND q.workflow_id > ${after}`)}, ${FIRST_WORKFLOW(lane)}) AS workflow_id OFFSET 0`

const ROUND_ROBIN = "nth_of_workflow, workflow_id <= :lastWorkflow::bigint, workflow_id"

const MAX_SHARES = `${MAX_SERVED} + cardinality(:lanes)`

const claimRoundRobinOf = (kind: ClaimKind) =>
  statement(
    `claim_round_robin_${kind}`,
    `WITH RECURSIVE ${CLAIMER}, lanes AS MATERIALIZED (
       SELECT l.*, ${PRIORITY("DESC")} AS highest, ${PRIORITY("ASC")} AS lowest
       FROM claimer c CROSS JOIN unnest(:lanes::text[], :positions::int[], :laneQueues::text[], :available::int[])
         AS l (lane, position, queue, available) WHERE c.unlimited
     ), tops AS MATERIALIZED (
       SELECT l.lane, l.position, l.queue, l.available, max(highest) OVER (PARTITION BY position) AS top,
         min(lowest) OVER (PARTITION BY position) AS bottom
       FROM lanes l
     ), workflows_of_lane AS (
       SELECT l.lane, l.position, l.queue, l.available, l.top, w.workflow_id, w.workflow_id AS first_workflow
       FROM tops l CROSS JOIN LATERAL (${NEXT_WORKFLOW("l", ":lastWorkflow::bigint")}) w WHERE w.workflow_id IS NOT NULL
       UNION ALL
       SELECT l.lane, l.position, l.queue, l.available, l.top, w.workflow_id, l.first_workflow
       FROM workflows_of_lane l CROSS JOIN LATERAL (${NEXT_WORKFLOW("l", "l.workflow_id")}) w WHERE w.workflow_id <> l.first_workflow
     ), shares AS MATERIALIZED (
       SELECT w.*, ((:maxClaims::int - 1) / count(*) OVER () + 1)::int AS share
       FROM (SELECT * FROM workflows_of_lane LIMIT ${MAX_SHARES}) w
     ), found AS MATERIALIZED (
       SELECT k.*, s.position, s.queue, s.available, s.share,
         row_number() OVER (PARTITION BY s.position, k.workflow_id ORDER BY k.run_seq, k.id) AS nth_of_workflow
       FROM shares s CROSS JOIN LATERAL (
         ${LOCK_CANDIDATES("q.lane = s.lane AND q.priority = s.top AND q.workflow_id = s.workflow_id", "s.share")}
       ) k
     ), placed AS (
       SELECT f.*, row_number() OVER (PARTITION BY position ORDER BY ${ROUND_ROBIN}) AS nth_of_position FROM found f
     ), numbered AS (
       SELECT p.*, row_number() OVER (PARTITION BY queue ORDER BY nth_of_position, position) AS nth_of_queue FROM placed p
     ), candidates AS MATERIALIZED (
       SELECT * FROM numbered WHERE available IS NULL OR nth_of_queue <= available
     ), search_result AS MATERIALIZED (
       SELECT false AS needs_round_robin, EXISTS (SELECT 1 FROM tops WHERE bottom < top) OR (SELECT count(*) FROM shares) >= ${MAX_SHARES}
         OR EXISTS (SELECT 1 FROM found GROUP BY lane, workflow_id, share HAVING count(*) >= share) AS more
     ), chosen AS MATERIALIZED (
       ${CHOOSE(kind, "ORDER BY k.nth_of_position, k.position")} ORDER BY k.nth_of_position, k.position LIMIT :maxClaims
     ), ${CLAIM_CHOSEN(kind)}`,
  )

const CLAIM_ROUND_ROBIN = { gate: claimRoundRobinOf("gate"), work: claimRoundRobinOf("work") } as const

export interface ServedLane {
  lane: string
  position: number
  /** Queue whose settings hold for the lane; null: none. */
  queue: string | null
  /** Number of rows of the queue that may start; infinity when nothing restricts it. */
  available: number
}

/** Claims from these lanes by round robin. `lastWorkflow`: the workflow that was served last. */
export const claimRoundRobin = (
  tx: Tx,
  kind: ClaimKind,
  request: ClaimRequest,
  { lanes, lastWorkflow }: { lanes?: readonly ServedLane[]; lastWorkflow: number },
): Promise<ClaimReply[]> => {
  const params = claimParams(tx, request)
  // Lanes whose settings the caller has applied are not checked for settings again.
  const servedLanes =
    lanes ?? params.lanes.map((lane) => ({ lane, position: 0, queue: null, available: Number.POSITIVE_INFINITY }))
  return tx.run(CLAIM_ROUND_ROBIN[kind], {
    ...params,
    ...(lanes !== undefined && { laneFrom: null, requirements: [], queues: [] }),
    lanes: servedLanes.map(({ lane }) => lane),
    positions: servedLanes.map(({ position }) => position),
    laneQueues: servedLanes.map(({ queue }) => queue),
    available: servedLanes.map(({ available }) => (available === Number.POSITIVE_INFINITY ? null : available)),
    lastWorkflow,
  })
}
