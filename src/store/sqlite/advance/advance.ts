// One turn of the loop in one transaction: timers, changes and what they release, cancels, ends of runs, freed limits, claims.

import { soonest } from "../../../core/time/soonest.ts"
import type { Advanced, Batch } from "../../contract/store.ts"
import { cancellingRuns, cancelPending, heldOf } from "./cancel-pending.ts"
import { claimGates, claimWork, takerOf } from "../claim/claim.ts"
import { closeRuns } from "./close-runs.ts"
import { cancelOverdue } from "./group-deadlines.ts"
import { toClaims } from "../claim/to-claims.ts"
import type { Turn } from "../claim/lane-groups.ts"
import { takeOnward } from "../claim/claim-unblocked.ts"
import { Effects } from "./unblock.ts"
import { settle } from "./finish-attempts.ts"
import { stoppedOf } from "./stop-requests.ts"
import { fireTimers, nextDueMs, overdue } from "./timers.ts"
import type { Tx } from "../connection/tx.ts"
import { claimWoken, nextWakeMs } from "./waiting.ts"

export interface Turns {
  work: Turn
  gate: Turn
}

export const advance = (tx: Tx, batch: Batch, turns: Turns): Advanced => {
  const effects = new Effects(tx, { onward: true })
  effects.expire(overdue(tx))
  const moreDue = fireTimers(tx)
  const rejected = settle(tx, effects, batch.changes)
  effects.apply()
  const cancelling = cancellingRuns(tx)
  const moreToCancel = cancelPending(tx, effects, cancelling)
  const moreToExpire = cancelOverdue(tx, effects)
  effects.apply()
  const closed = closeRuns(tx, cancelling)
  for (const { runSeq } of closed) effects.touch(runSeq)
  tx.wakeOthers ||= effects.concernsOthers(batch.gate.lanes)
  effects.unpark()
  const taker = takerOf(tx, batch.holder)
  const { claim } = batch
  // Before the gate is asked: some of these may be for it.
  const onward = takeOnward(tx, taker, claim, effects.successes)
  const { lanes, limit } = batch.gate
  // What was woken has half of the gate's places to itself, and what is left of the rest goes to what is new.
  const woken = claimWoken(tx, taker, { lanes, limit: Math.ceil(limit / 2) })
  const gates = claimGates(tx, taker, { lanes, limit: limit - woken.claims.length }, turns.gate)
  const work = claimWork(tx, taker, { ...claim, limit: claim.limit - onward.length }, turns.work)
  tx.limits.save()
  return {
    rejected,
    claims: onward.length === 0 ? work.claims : [...toClaims(tx, onward), ...work.claims],
    gates: [...woken.claims, ...gates.claims],
    cancelling: heldOf(tx, batch.holder, cancelling, closed),
    cancelRequested: stoppedOf(tx, taker),
    closed,
    events: tx.events,
    more: moreDue || moreToCancel || moreToExpire || woken.more || gates.more || work.more,
    nextDueMs: soonest(soonest(nextDueMs(tx), tx.queues.waitMs), limit > 0 && taker !== null ? nextWakeMs(tx, lanes) : null),
  }
}
