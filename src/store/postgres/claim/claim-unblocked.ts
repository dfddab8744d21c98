// Rows that become ready and go on at once: they are released and taken in the same write, and never listed. That is for rows which a
// claim would take first: no listed one stands before them, and no other workflow waits for its turn. All others are listed.
// `below`, from which they are taken, is of one workflow, in the order of claims.

import type { AttemptId } from "../../../core/model/ids.ts"
import { wildcardRange, isExactLane } from "../../../core/routing/lanes.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { anyTextParam } from "../connection/array-params.ts"
import { ME, type ClaimRequest } from "./claim.ts"
import { CLAIMED_NAMES, CLAIMED_ROW, NEW_ID, type ClaimedRow } from "./claimed-row.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { ADD_IN_FLIGHT, ENQUEUE, READY } from "./ready-queue.ts"
import type { Value } from "../connection/connection.ts"

/** Who takes what becomes ready. */
export interface Claimer extends ClaimRequest {
  ids: AttemptId
}

/** $21 holder, $22 attempt ids, $23 lanes and from $24 to $25 those between two names, $26 how many, $27 `queues`: of the rows below. */
export const takerValues = ({ holder, ids, lanes, limit }: Claimer, queues: Iterable<string>): Value[] => {
  const every = wildcardRange(lanes)
  const most = Math.min(limit, MAX_CANDIDATES)
  return [
    holder,
    ids,
    anyTextParam(lanes.filter(isExactLane)),
    every?.from ?? null,
    every?.to ?? null,
    most,
    anyTextParam([...queues]),
  ]
}

export const IS_WANTED = (lane: string): string =>
  `(${lane} = ANY ($23::text[]) OR ${lane} > $24::text AND ${lane} < $25::text)`

const NO_SETTINGS = "NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = ANY ($27::text[]))"

/** How it is known that a row comes first: what is read of the list before, as `head`, and what is asked of a row `t` with that in `k`. */
export interface First {
  head: string
  holds: string
}

/** For when the list was empty a moment ago. */
export const NOTHING_LISTED: First = {
  head: `head AS MATERIALIZED (
     SELECT NOT EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane = ANY ($23::text[]))
       AND NOT EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane > $24::text AND q.lane < $25::text) AS none
   )`,
  holds: "k.none",
}

const IN_ORDER = "ORDER BY q.lane, q.priority DESC, q.workflow_id, q.run_seq, q.id LIMIT 1"

/** `several`: lanes or workflows share what is claimed next. */
export const NONE_BEFORE_IT: First = {
  head: `heads AS MATERIALIZED (
     SELECT f.* FROM unnest($23::text[]) AS l (lane) CROSS JOIN LATERAL (
       SELECT q.lane, q.priority, q.workflow_id, q.run_seq, q.id FROM ready_queue q WHERE q.lane = l.lane ${IN_ORDER}
     ) f
     UNION ALL
     (SELECT q.lane, q.priority, q.workflow_id, q.run_seq, q.id FROM ready_queue q WHERE q.lane > $24::text AND q.lane < $25::text ${IN_ORDER})
   ), head AS MATERIALIZED (
     SELECT count(*) = 0 AS none, min(h.lane) AS of_lane, min(h.priority) AS of_priority, min(h.workflow_id) AS of_workflow,
       min(h.run_seq) AS of_run, min(h.id) AS of_id, count(*) > 1 OR bool_or(EXISTS (
         SELECT 1 FROM ready_queue q WHERE q.lane = h.lane AND q.priority = h.priority AND q.workflow_id > h.workflow_id
       ) OR EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane > h.lane AND q.lane < $25::text)) AS several
     FROM heads h
   )`,
  holds: `(k.none OR NOT k.several AND t.lane = k.of_lane AND (t.priority > k.of_priority
      OR t.priority = k.of_priority AND t.workflow_id = k.of_workflow AND (t.run_seq < k.of_run OR t.run_seq = k.of_run AND t.id < k.of_id)))`,
}

/** A row that waited for others was never dispatched, or was set back (`FRESH`): nothing of an attempt is left in it. */
const GOES = ({ holds }: First): string =>
  `k.may AND t.upstream_pending = k.ended AND t.kind = 'task' AND t.limits IS NULL AND t.parked IS NULL AND t.available_at IS NULL
    AND t.attempt_id IS NULL AND ${IS_WANTED("t.lane")} AND ${holds}`

const ONWARD_VALUES = {
  status: "'dispatched'",
  attempt: "t.attempt + 1",
  attempt_id: NEW_ID("k.place", "$22"),
  holder: "$21::uuid",
  worker: "k.name",
  dispatched_at: "COALESCE($1::timestamptz, now())",
}

/**
 * `below`: a set (run_seq, node, path, ended, place, …) of rows with how many of their upstreams have ended; `counted`: their runs. `also`: what
 * else is returned of it. Gives `released`, some of which are `ready`, and those that went on as `onward`.
 */
export const CLAIM_UNBLOCKED = (first: First, below: string, also: readonly string[] = []): string => `
   ${ME(NO_SETTINGS, "$21")}, ${first.head}, released AS (
     UPDATE tasks t SET upstream_pending = GREATEST(t.upstream_pending - k.ended, 0),
       ${Object.entries(ONWARD_VALUES)
         .map(([column, value]) => `${column} = CASE WHEN ${GOES(first)} THEN ${value} ELSE t.${column} END`)
         .join(", ")}
     FROM (
       SELECT b.*, h.*, me.name, b.run_seq <> ALL (ARRAY(SELECT seq FROM counted WHERE stopped)) AND b.place <= $26::int
         AND COALESCE(me.free, false) AS may
       FROM ${below} b CROSS JOIN head h LEFT JOIN me ON true OFFSET 0
     ) k WHERE t.run_seq = k.run_seq AND t.node = k.node AND t.path = k.path AND t.status = 'pending'
     RETURNING ${[CLAIMED_ROW, "t.attempt_id AS new_id", `${READY("t")} AS ready`, "t.status = 'dispatched' AS goes", ...also.map((name) => `k.${name}`)].join(", ")}
   ), onward AS (
     SELECT ${[CLAIMED_NAMES, "new_id", ...also].join(", ")} FROM released WHERE goes
   ), held AS (
     ${ADD_IN_FLIGHT("onward")}
   ), listed AS (
     ${ENQUEUE("released")}
   )`

/** Of its run all is known. */
export type UnblockedRow = Omit<
  ClaimedRow,
  "limits" | "run_id" | "version_id" | "generation" | "cancelling" | "run_status" | "run_error" | "paused"
>

/** From an answer, which may have none; `runs`: theirs, by a row of each. */
export const claimedUnblocked = (
  rows: readonly Partial<UnblockedRow>[],
  runs: readonly { of: InFlightAttempt }[],
): ClaimedRow[] => {
  const known = new Map(runs.map(({ of }) => [of.runSeq, of]))
  return rows.filter(isTaken).map((row) => {
    const { runId, versionId, generation } = known.get(row.run_seq)!
    const run = {
      run_id: runId,
      version_id: versionId,
      generation,
      cancelling: null,
      run_status: "running",
      run_error: null,
    } as const
    return { ...row, ...run, limits: null, paused: false }
  })
}

const isTaken = (row: Partial<UnblockedRow>): row is UnblockedRow => typeof row.id === "number"
