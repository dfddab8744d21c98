// One turn of the loop in one transaction: timers, changes and what they release, cancels, ends of runs, freed limits, claims.

import { soonest } from "../../../core/time/soonest.ts"
import type { Advanced, Batch } from "../../contract/store.ts"
import { cancellingRuns, cancelPending, cancellingRunsOf } from "./cancel-pending.ts"
import { claimGates, claimWork, claimerOf } from "../claim/claim.ts"
import { closeRuns } from "./close-runs.ts"
import { cancelOverdue } from "./group-deadlines.ts"
import { toClaims } from "../claim/to-claims.ts"
import type { RoundRobin } from "../claim/lane-groups.ts"
import { takeOnward } from "../claim/claim-unblocked.ts"
import { Effects } from "./unblock.ts"
import { applyChanges } from "./finish-attempts.ts"
import { stopRequestsOf } from "./stop-requests.ts"
import { fireTimers, nextDueMs, overdue } from "./timers.ts"
import type { Tx } from "../connection/tx.ts"
import { claimResumed, nextResumeMs } from "./waiting.ts"

export interface Cursors {
  work: RoundRobin
  gate: RoundRobin
}

export const advance = (tx: Tx, batch: Batch, turns: Cursors): Advanced => {
  const effects = new Effects(tx, { onward: true })
  effects.expire(overdue(tx))
  const moreDue = fireTimers(tx)
  const rejected = applyChanges(tx, effects, batch.changes)
  effects.apply()
  const cancelling = cancellingRuns(tx)
  const moreToCancel = cancelPending(tx, effects, cancelling)
  const moreToExpire = cancelOverdue(tx, effects)
  effects.apply()
  const closed = closeRuns(tx, cancelling)
  for (const { runSeq } of closed) effects.touch(runSeq)
  tx.wakeOthers ||= effects.concernsOthers(batch.gate.lanes)
  effects.unpark()
  const taker = claimerOf(tx, batch.holder)
  const { claim } = batch
  // Before the gate is asked: some of these may be for it.
  const onward = takeOnward(tx, taker, claim, effects.successes)
  const { lanes, limit } = batch.gate
  // What was woken has half of the gate's places to itself, and what is left of the rest goes to what is new.
  const woken = claimResumed(tx, taker, { lanes, limit: Math.ceil(limit / 2) })
  const gates = claimGates(tx, taker, { lanes, limit: limit - woken.claims.length }, turns.gate)
  const work = claimWork(tx, taker, { ...claim, limit: claim.limit - onward.length }, turns.work)
  tx.limits.save()
  return {
    rejected,
    claims: onward.length === 0 ? work.claims : [...toClaims(tx, onward), ...work.claims],
    gates: [...woken.claims, ...gates.claims],
    cancelling: cancellingRunsOf(tx, batch.holder, cancelling, closed),
    cancelRequested: stopRequestsOf(tx, taker),
    closed,
    events: tx.events,
    more: moreDue || moreToCancel || moreToExpire || woken.more || gates.more || work.more,
    nextDueMs: soonest(soonest(nextDueMs(tx), tx.queues.waitMs), limit > 0 && taker !== null ? nextResumeMs(tx, lanes) : null),
  }
}
