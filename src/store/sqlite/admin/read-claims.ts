// Reads attempts in flight as claims again: for a report that reaches a server which did not make the claim, and for adopting
// attempts of a dead holder.

import type { Fence } from "../../../core/model/change.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import type { Claim } from "../../contract/store.ts"
import { CANDIDATE, type CandidateColumns, candidateOf, readState } from "../claim/candidates.ts"
import { claimerOf } from "../claim/claim.ts"
import { type ClaimedRow, toClaims } from "../claim/to-claims.ts"
import type { Tx } from "../tx.ts"
import { waitOf } from "../advance/waiting.ts"

const IN_FLIGHT = `
SELECT ${CANDIDATE}, waiting_on, started_at, resumes FROM tasks
WHERE id = ? AND attempt_id = ? AND status IN ('dispatched', 'running') AND kind = 'task'`

export const readClaims = (tx: Tx, fences: readonly Fence[]): Claim[] => {
  const found: ClaimedRow[] = []
  for (const { row, attemptId } of fences) {
    const columns = tx.db.get<[...CandidateColumns, string | null, string | null, number]>(IN_FLIGHT, row, attemptId)
    if (columns === undefined) continue
    const [waitingOn, startedAt, resumes] = columns.slice(-3) as [string | null, string | null, number]
    const candidate = candidateOf(columns as unknown as CandidateColumns, "", readState(tx, columns[1]))
    found.push({ ...candidate, attemptId, wait: waitOf(tx, { waitingOn, startedAt, resumes }) })
  }
  return toClaims(tx, found)
}

const ADOPT = `
UPDATE tasks SET holder = ?, worker = ? WHERE id = ? AND attempt_id = ? AND status IN ('dispatched', 'running')
  AND EXISTS (SELECT 1 FROM holders h WHERE h.seq = tasks.holder AND h.dead = 1)`

const MOVE_STOP_REQUEST = "UPDATE stop_requests SET holder = ? WHERE task_id = ?"

/** Moves attempts of dead holders to this holder. Returns the claims of those that it adopted. */
export const adopt = (tx: Tx, holder: HolderId, fences: readonly Fence[]): Claim[] => {
  const claimer = claimerOf(tx, holder)
  if (claimer === null) return []
  const adopted = fences.filter(({ row, attemptId }) => tx.db.run(ADOPT, claimer.seq, claimer.name, row, attemptId) === 1)
  for (const { row } of adopted) tx.db.run(MOVE_STOP_REQUEST, claimer.seq, row)
  return readClaims(tx, adopted)
}
