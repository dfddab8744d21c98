// Requests about an unfinished run: cancel, pause, unpause.

import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import type { RunId } from "../../../core/model/ids.ts"
import type { CancelReason } from "../../contract/store.ts"
import { beginCancel } from "../advance/cancel-pending.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import { resumeUnpaused } from "../advance/waiting.ts"
import type { Tx } from "../tx.ts"

const ACTIVE = statement(
  "control_active",
  "SELECT seq, version_id FROM runs WHERE id = :runId::uuid AND status IN ('pending', 'running') FOR UPDATE",
)

interface Active {
  seq: number
  version_id: number
}

const IN_FLIGHT = statement(
  "control_in_flight",
  `SELECT 1 FROM tasks WHERE run_seq = :seq AND node = 0 AND path = '' AND status IN ('dispatched', 'running') AND waiting_on IS NULL`,
)

export const requestCancel = async (
  tx: Tx,
  runId: RunId,
  reason: CancelReason,
  { inFlight = false }: { inFlight?: boolean } = {},
): Promise<boolean> => {
  const [run] = await tx.run<Active>(ACTIVE, { runId })
  if (run === undefined) return false
  if (inFlight && (await tx.run(IN_FLIGHT, { seq: run.seq })).length === 0) return false
  await beginCancel(tx, [run], reason)
  return true
}

const PAUSE = statement("control_pause", "UPDATE runs SET paused = :paused WHERE seq = :seq")

const UNPARK = statement(
  "control_unpark",
  `WITH unparked AS (UPDATE tasks t SET parked = NULL WHERE t.parked = ${PARKED_BY_PAUSE} AND t.run_seq = :seq RETURNING ${READINESS("t")})
   ${insertInto("ready_queue", "unparked")}`,
)

export const setPaused = async (tx: Tx, runId: RunId, paused: boolean): Promise<boolean> => {
  const [run] = await tx.run<Active>(ACTIVE, { runId })
  if (run === undefined) return false
  await tx.run(PAUSE, { seq: run.seq, paused })
  if (paused) return true
  await resumeUnpaused(tx, run.seq)
  await tx.run(UNPARK, { seq: run.seq })
  return true
}
