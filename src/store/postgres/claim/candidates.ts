// What the claim statements share: they lock candidates from the ready queue, choose among them (`chosen`), and claim the chosen
// rows. Rows under a limit or of a paused run are only locked; core `admit` decides about them (claim-limited.ts).
//
// Parameters: holder, those of wanted-lanes.ts, queues (of the named lanes), maxClaims, attemptIdPrefix, now.

import type { HolderId } from "../../../core/model/ids.ts"
import { queueOfLane } from "../../../core/routing/lanes.ts"
import type { Batch } from "../../contract/store.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { readyOrder } from "../../shared/claim-order.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { CLAIM_COLUMNS, type ClaimedRow, ATTEMPT_ID } from "./claimed-row.ts"
import { insertInto, READY } from "./ready-queue.ts"
import { laneParams, WANTS_RESTRICTED } from "./wanted-lanes.ts"

/** The request of a claim: its lanes, its holder and the number of rows. */
export interface ClaimRequest {
  holder: HolderId
  lanes: readonly string[]
  maxClaims: number
}

export const claimRequest = (holder: HolderId, { lanes, maxClaims }: Batch["work"]): ClaimRequest => ({
  holder,
  lanes,
  maxClaims,
})

/** Rows are claimed for the gate, which evaluates them, or for work. */
export type ClaimKind = "gate" | "work"

/** Returns the parameters of a claim statement. */
export const claimParams = (tx: Tx, { holder, lanes, maxClaims }: ClaimRequest) => {
  const wanted = laneParams(lanes)
  return {
    holder,
    ...wanted,
    queues: wanted.lanes.flatMap((lane) => queueOfLane(lane) ?? []),
    maxClaims: Math.min(maxClaims, MAX_CANDIDATES),
    attemptIdPrefix: tx.clock.newAttemptIdPrefix(),
  }
}

/** The holder that claims, if it is alive. `unlimited`: none of the queues that are asked for has settings. */
export const CLAIMER = `claimer AS MATERIALIZED (
    SELECT h.name, NOT EXISTS (
      SELECT 1 FROM queues q WHERE :laneFrom::text IS NOT NULL OR ${WANTS_RESTRICTED} OR q.name = ANY (:queues::text[])
    ) AS unlimited
    FROM holders h WHERE h.id = :holder::uuid AND NOT h.dead
  )`

/** Order of the ready queue. */
export const READY_ORDER = `q.lane, ${readyOrder("q")}`

/** Locks the first entries `q` of the ready queue that match. `stale`: the row of the entry is not ready any more. */
export const LOCK_CANDIDATES = (where: string, limit: string): string =>
  `SELECT q.lane, q.ctid AS entry, t.id, t.run_seq, t.workflow_id, t.priority, t.limits, t.kind, t.children_created,
    t.children_pending, NOT (${READY("t")}) AS stale, q.xmin = pg_current_xact_id_if_assigned()::xid AS enqueued_here
  FROM ready_queue q JOIN tasks t ON t.id = q.id WHERE ${where}
  ORDER BY ${READY_ORDER} LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED`

/**
 * Conditions that core `decideStart` does not leave the row `k` of the run `r` to the cancel. Such a row stays in the ready queue until
 * `cancelPending` finishes it; SQLite parks it (sqlite/claim/claim.ts). Claims for work meet no containers. The gate uses no slots.
 */
const KINDS = {
  work: { claimable: "r.cancelling IS NULL", limits: "k.limits" },
  gate: {
    claimable: "(r.cancelling IS NULL OR k.children_created > 0 AND k.children_pending = 0)",
    limits: "NULL::bigint[]",
  },
} as const

/** Condition that a claim of this kind may take the row `k` of the run `r`, unless the run is paused. */
export const IS_CLAIMABLE = (kind: ClaimKind): string => KINDS[kind].claimable

/** Condition of core `isPaused` for the run `r`; false for a job. `admitRows` parks the rows of such a run. */
export const IS_PAUSED = "COALESCE(r.paused AND r.status = 'running' AND r.cancelling IS NULL, false)"

/** Returns the columns of the run `r` that a claim carries. */
export const CLAIMED_RUN_COLUMNS =
  "r.id AS run_id, r.version_id, r.generation, r.cancelling, r.status AS run_status, r.error AS run_error"

/** Chooses the rows of `candidates` that may be claimed, and the stale ones, in that order. Follow with further conditions. */
export const CHOOSE = (kind: ClaimKind, order = ""): string => `
    SELECT k.id, k.entry, k.stale, k.enqueued_here, ${KINDS[kind].limits} AS limits, ${CLAIMED_RUN_COLUMNS}, ${IS_PAUSED} AS paused,
      ${ATTEMPT_ID(`row_number() OVER (${order})`)} AS attempt_id
    FROM candidates k LEFT JOIN runs r ON r.seq = k.run_seq WHERE (${IS_CLAIMABLE(kind)} OR k.stale)`

/** Assignments of a row that is claimed for work by the holder with this name. */
export const DISPATCH = (holderName: string): string =>
  `status = 'dispatched', attempt = t.attempt + 1, holder = :holder::uuid, worker = (${holderName}), dispatched_at = ${NOW},
    external_id = NULL, finished_at = NULL, last_attempt_state = NULL, error = NULL, exit_code = NULL, usage = NULL,
    progress = NULL, inner_run = NULL`

const ASSIGNMENTS = { gate: "holder = :holder::uuid", work: DISPATCH("SELECT name FROM claimer") } as const

const NEEDS_NO_ADMISSION = "k.limits IS NULL AND NOT k.paused"

/**
 * Claims the chosen rows, and drops their entries and the stale ones. A row whose entry is gone by now is left: another transaction
 * changed it after the queue was read. Returns at least one row, which carries the columns of `ClaimReply`.
 */
export const CLAIM_CHOSEN = (kind: ClaimKind): string => `dequeued AS (
    DELETE FROM ready_queue q WHERE q.ctid = ANY (ARRAY(SELECT k.entry FROM chosen k WHERE k.stale OR ${NEEDS_NO_ADMISSION})) RETURNING q.id
  ), claimed AS (
    UPDATE tasks t SET attempt_id = k.attempt_id, ${ASSIGNMENTS[kind]}
    FROM chosen k WHERE t.id = k.id AND NOT k.stale AND ${NEEDS_NO_ADMISSION} AND k.id = ANY (ARRAY(SELECT id FROM dequeued))
    RETURNING ${CLAIM_COLUMNS}
  ), now_in_flight AS (
    ${insertInto("in_flight", "claimed")}
  )
  SELECT c.*, found.more, found.needs_round_robin, EXISTS (SELECT 1 FROM claimer WHERE NOT unlimited) AS queue_settings,
    (SELECT array_agg(k.id) FROM chosen k WHERE NOT k.stale AND (k.limits IS NOT NULL OR k.paused)) AS limited
  FROM search_result found LEFT JOIN claimed c ON true`

/** A row of the reply to a claim. All columns of the claimed row are null when none was claimed. */
export type ClaimReply = ClaimedRow & {
  /** More rows are ready than were candidates. */
  more: boolean
  /** Several workflows or lanes have ready rows, so the head of the queue does not decide: nothing was claimed. */
  needs_round_robin: boolean
  /** A queue of the lanes has settings; nothing was claimed then. */
  queue_settings: boolean
  /** Locked rows that core `admit` must decide about. */
  limited: number[] | null
}
