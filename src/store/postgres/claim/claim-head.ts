// Claims from the head of the ready queue. This is enough while only one workflow of one lane has ready rows at the highest priority, as
// in most turns; otherwise nothing is claimed and `needs_round_robin` is true (claim-round-robin.ts).

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
import { ALL_RESTRICTED_LANES, LANES_OF_RANGE, TWO_RESTRICTED_LANES } from "./wanted-lanes.ts"

/** Reads at most two lanes of each wildcard: enough to know whether there is only one. */
const claimHeadOf = (kind: ClaimKind) =>
  statement(
    `claim_head_${kind}`,
    `WITH RECURSIVE ${CLAIMER}, ${LANES_OF_RANGE}, ${ALL_RESTRICTED_LANES}, lanes AS MATERIALIZED (
       SELECT lane FROM unnest(:lanes::text[]) AS l (lane)
       UNION SELECT lane FROM (SELECT lane FROM lanes_of_range LIMIT 2) r
       UNION SELECT lane FROM ${TWO_RESTRICTED_LANES} f
     ), candidates AS MATERIALIZED (
       SELECT k.* FROM claimer c CROSS JOIN lanes l CROSS JOIN LATERAL (
         ${LOCK_CANDIDATES("q.lane = l.lane", ":maxClaims::int")}
       ) k WHERE c.unlimited
     ), search_result AS MATERIALIZED (
       SELECT false AS more, NOT (a.n = 0 OR a.is_alone AND NOT a.stale AND (a.n < :maxClaims OR NOT EXISTS (
         SELECT 1 FROM ready_queue q WHERE q.lane = a.lane AND q.priority = a.priority AND q.workflow_id > a.workflow_id
       ))) AS needs_round_robin
       FROM (
         SELECT count(*) AS n, min(lane) AS lane, min(priority) AS priority, min(workflow_id) AS workflow_id,
           min(workflow_id) = max(workflow_id) AND min(lane) = max(lane) AS is_alone, bool_or(stale) AS stale
         FROM candidates
       ) a
     ), chosen AS MATERIALIZED (${CHOOSE(kind)} AND NOT (SELECT needs_round_robin FROM search_result)), ${CLAIM_CHOSEN(kind)}`,
  )

const CLAIM_HEAD = { gate: claimHeadOf("gate"), work: claimHeadOf("work") } as const

export const claimHead = (tx: Tx, kind: ClaimKind, request: ClaimRequest): Promise<ClaimReply[]> =>
  tx.run(CLAIM_HEAD[kind], claimParams(tx, request))
