// Live attempts as claims once more: for a report that reaches a server which did not make the claim, and for work that goes on
// after its holder died.

import type { Fence } from "../../../core/model/change.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import type { Claim } from "../../contract/store.ts"
import { CANDIDATE, type CandidateColumns, candidateOf, readState } from "../claim/candidates.ts"
import { claimerOf } from "../claim/claim.ts"
import { type ClaimedRow, toClaims } from "../claim/to-claims.ts"
import type { Tx } from "../connection/tx.ts"
import { waitingOnOf } from "../advance/waiting.ts"

const LIVE = `SELECT ${CANDIDATE}, waiting_on, started_at FROM tasks WHERE id = ? AND attempt_id = ? AND status IN ('dispatched', 'running') AND kind = 'task'`

export const readClaims = (tx: Tx, fences: readonly Fence[]): Claim[] => {
  const found: ClaimedRow[] = []
  for (const { row, attemptId } of fences) {
    const columns = tx.db.get<[...CandidateColumns, string | null, string | null]>(LIVE, row, attemptId)
    if (columns === undefined) continue
    const [waits, startedAt] = columns.slice(-2) as [string | null, string | null]
    const candidate = candidateOf(columns as unknown as CandidateColumns, "", readState(tx, columns[1]))
    found.push({ ...candidate, attemptId, waitingOn: waitingOnOf(tx, waits, startedAt) })
  }
  return toClaims(tx, found)
}

const ADOPT = `
UPDATE tasks SET holder = ?, worker = ? WHERE id = ? AND attempt_id = ? AND status IN ('dispatched', 'running')
  AND EXISTS (SELECT 1 FROM holders h WHERE h.seq = tasks.holder AND h.dead = 1)`

const MOVE_STOP = "UPDATE stop_requests SET holder = ? WHERE task_id = ?"

export const adopt = (tx: Tx, holder: HolderId, fences: readonly Fence[]): Claim[] => {
  const taker = claimerOf(tx, holder)
  if (taker === null) return []
  const adopted = fences.filter(({ row, attemptId }) => tx.db.run(ADOPT, taker.seq, taker.name, row, attemptId) === 1)
  for (const { row } of adopted) tx.db.run(MOVE_STOP, taker.seq, row)
  return readClaims(tx, adopted)
}
