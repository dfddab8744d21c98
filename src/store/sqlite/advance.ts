// One turn of the loop in one transaction: timers, changes and what they release, cancels, ends of runs, freed limits, claims.

import type { Advanced, Batch } from "../store.ts"
import { cancellingRuns, cancelPending, heldOf } from "./cancel.ts"
import { claimGates, claimWork, takerOf } from "./claim.ts"
import { closeRuns } from "./close.ts"
import type { Turn } from "./lane-groups.ts"
import { Effects } from "./release.ts"
import { settle } from "./settle.ts"
import { stoppedOf } from "./stops.ts"
import { fireTimers, nextDueMs } from "./timers.ts"
import type { Tx } from "./tx.ts"

export interface Turns {
  work: Turn
  gate: Turn
}

export const advance = (tx: Tx, batch: Batch, turns: Turns): Advanced => {
  const moreDue = fireTimers(tx)
  const effects = new Effects(tx)
  const refused = settle(tx, effects, batch.changes)
  effects.apply()
  const cancelling = cancellingRuns(tx)
  const moreToCancel = cancelPending(tx, effects, cancelling)
  effects.apply()
  const closed = closeRuns(tx, cancelling)
  for (const { runSeq } of closed) effects.touch(runSeq)
  tx.wakeOthers ||= effects.concernsOthers(batch.gate.lanes)
  effects.unpark()
  const taker = takerOf(tx, batch.holder)
  const gates = claimGates(tx, taker, batch.gate, turns.gate)
  const work = claimWork(tx, taker, batch.claim, turns.work)
  tx.limits.save()
  return {
    refused,
    claims: work.claims,
    gates: gates.claims,
    cancelling: heldOf(tx, batch.holder, cancelling, closed),
    stopped: stoppedOf(tx, taker),
    closed,
    events: tx.events,
    more: moreDue || moreToCancel || gates.more || work.more,
    nextDueMs: soonest(nextDueMs(tx), tx.queues.waitMs),
  }
}

const soonest = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : Math.min(a, b))
