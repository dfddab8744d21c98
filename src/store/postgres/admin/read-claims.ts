// Reads attempts in flight as claims again: for a report that reaches a server which did not make the claim, and for adopting
// attempts of a dead holder.

import type { Fence } from "../../../core/model/change.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim } from "../../contract/store.ts"
import { CLAIM_COLUMNS, type ClaimedRow } from "../claim/claimed-row.ts"
import { toClaims } from "../claim/to-claims.ts"
import { statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { NOW } from "../connection/store-clock.ts"

const IN_FLIGHT = statement(
  "claims_in_flight",
  `SELECT ${CLAIM_COLUMNS}, t.waiting_on, t.resumes, (EXTRACT(epoch FROM ${NOW} - t.started_at) * 1000)::float8 AS elapsed
   FROM unnest(:ids::bigint[], :attemptIds::uuid[]) AS c (id, attempt_id)
   JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running') AND t.kind = 'task'
   CROSS JOIN LATERAL (
     SELECT t.limits, r.id AS run_id, r.version_id, r.generation, r.cancelling, r.status AS run_status, r.error AS run_error,
       false AS paused, t.attempt_id, NULL::bool AS enqueued_here
     FROM (SELECT) one LEFT JOIN runs r ON r.seq = t.run_seq
   ) k ORDER BY t.id`,
)

export const readClaims = async (tx: Tx, fences: readonly Fence[]): Promise<Claim[]> => {
  if (fences.length === 0) return []
  const rows = await tx.run<ClaimedRow>(IN_FLIGHT, {
    ids: fences.map(({ row }) => row),
    attemptIds: fences.map(({ attemptId }) => attemptId),
  })
  await tx.workflows.load(rows.flatMap((row) => (isJobRow(row.run_seq) ? [] : row.version_id)))
  return toClaims(tx, rows, new Map())
}

const ADOPT = statement(
  "claims_adopt",
  `WITH claimer AS (SELECT id, name FROM holders WHERE id = :holder::uuid AND NOT dead), adopted AS (
     UPDATE tasks t SET holder = claimer.id, worker = claimer.name
     FROM claimer, unnest(:rows::bigint[], :attemptIds::uuid[]) AS c (id, attempt_id)
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running')
       AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.id = t.holder AND NOT h.dead)
     RETURNING t.id, t.attempt_id
   ), stopped AS (
     UPDATE stop_requests s SET holder = :holder::uuid FROM adopted a WHERE s.task_id = a.id
   )
   SELECT id AS row, attempt_id AS "attemptId" FROM adopted`,
)

/** Moves attempts of dead holders to this holder. Returns the claims of those that it adopted. */
export const adopt = async (tx: Tx, holder: HolderId, fences: readonly Fence[]): Promise<Claim[]> => {
  const rows = fences.map(({ row }) => row)
  const attemptIds = fences.map(({ attemptId }) => attemptId)
  return readClaims(tx, await tx.run<Fence>(ADOPT, { rows, attemptIds, holder }))
}
