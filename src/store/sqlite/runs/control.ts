// Requests about an unfinished run: cancel, pause, unpause.

import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import type { RunId } from "../../../core/model/ids.ts"
import type { CancelReason } from "../../contract/store.ts"
import { beginCancel } from "../advance/cancel-pending.ts"
import type { Tx } from "../tx.ts"
import { resumeUnpaused } from "../advance/waiting.ts"

const ACTIVE = "SELECT seq FROM runs WHERE id = ? AND status IN ('pending', 'running')"

const IN_FLIGHT = `
SELECT 1 FROM tasks WHERE run_seq = ? AND node = 0 AND path = '' AND status IN ('dispatched', 'running') AND waiting_on IS NULL`

export const requestCancel = (
  tx: Tx,
  runId: RunId,
  reason: CancelReason,
  { inFlight = false }: { inFlight?: boolean } = {},
): boolean => {
  const run = tx.db.get<[number]>(ACTIVE, runId)
  if (run === undefined || (inFlight && tx.db.get(IN_FLIGHT, run[0]) === undefined)) return false
  beginCancel(tx, run[0], reason)
  tx.wake.noteWorkLeft()
  return true
}

const PAUSE = "UPDATE runs SET paused = ? WHERE seq = ?"

const UNPARK = `
UPDATE tasks INDEXED BY tasks_paused SET parked = NULL
WHERE parked = ${PARKED_BY_PAUSE} AND run_seq = ? AND status = 'pending' AND attempt_id IS NULL`

export const setPaused = (tx: Tx, runId: RunId, paused: boolean): boolean => {
  const run = tx.db.get<[number]>(ACTIVE, runId)
  if (run === undefined) return false
  tx.db.run(PAUSE, paused ? 1 : 0, run[0])
  if (!paused) {
    tx.db.run(UNPARK, run[0])
    resumeUnpaused(tx, run[0])
  }
  tx.wake.noteWorkLeft()
  return true
}
