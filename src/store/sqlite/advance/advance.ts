// One transaction of the loop: apply timers and changes, unblock, cancel, close runs, free slots, claim.

import type { Change, Fence } from "../../../core/model/change.ts"
import { FUNCTION_EXECUTOR } from "../../../core/model/function.ts"
import { soonest } from "../../../core/time/soonest.ts"
import type { AdvanceResult, Batch } from "../../contract/store.ts"
import { resumedShare } from "../../shared/bounds.ts"
import { cancellingRuns, cancellingRunsOf, cancelPending } from "./cancel-pending.ts"
import { appendAudit } from "../admin/keys.ts"
import { claimerOf, claimGates, claimWork } from "../claim/claim.ts"
import { closeRuns } from "./close-runs.ts"
import { emitTask } from "./events.ts"
import { cancelOverdue } from "./group-timeouts.ts"
import { toClaims } from "../claim/to-claims.ts"
import type { ClaimCursor } from "../claim/lane-sets.ts"
import { hasReadyRows } from "../claim/ready-queue.ts"
import { type RowToUnblock, unblockAndClaim } from "../claim/unblock-and-claim.ts"
import { BatchEffects } from "./batch-effects.ts"
import { applyChanges } from "./apply-changes.ts"
import { expireJobs } from "../jobs/expiry.ts"
import { stopRequestsOf } from "./stop-requests.ts"
import { beginPassedTimeouts, isTimerDue, makeDueReady, nextDueMs } from "./timers.ts"
import { nodeOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import { claimResumed } from "./waiting.ts"

/** Positions of the claims, which live as long as the store. */
export interface Cursors {
  work: ClaimCursor
  gate: ClaimCursor
}

/** Adds the entries of the changes that were applied to the audit log. */
const appendEntries = (tx: Tx, changes: readonly Change[], rejected: readonly Fence[]): void => {
  const entries = changes.filter(
    ({ auditEntry, attemptId }) => auditEntry !== undefined && !rejected.some((fence) => fence.attemptId === attemptId),
  )
  if (entries.length > 0)
    appendAudit(
      tx,
      entries.map(({ auditEntry }) => auditEntry!),
    )
}

/** Returns whether tasks that call functions were unblocked, and not claimed: another process may have the functions. */
const leavesFunctions = (tx: Tx, unblocked: readonly RowToUnblock[], claimed: readonly { rowId: number }[]): boolean => {
  const rows = new Set(claimed.map(({ rowId }) => rowId))
  return unblocked.some((row) => !rows.has(row.rowId) && nodeOf(tx, row).executor === FUNCTION_EXECUTOR)
}

interface FiredTimers {
  /** Whether more timers are due than one transaction handles. */
  more: boolean
  /** Whether more jobs may have expired: the turn claims no work, since it could be one of them. */
  expiredRowsLeft: boolean
}

const NOTHING_FIRED: FiredTimers = { more: false, expiredRowsLeft: false }

const fireTimers = (tx: Tx, effects: BatchEffects): FiredTimers => {
  const { groups, jobs, full } = beginPassedTimeouts(tx)
  effects.markOverdue(groups)
  if (jobs.length > 0) expireJobs(tx, effects, jobs)
  return { more: makeDueReady(tx) || full, expiredRowsLeft: full }
}

export const advance = (tx: Tx, batch: Batch, cursors: Cursors): AdvanceResult => {
  const effects = new BatchEffects(tx)
  const fired = isTimerDue(tx) ? fireTimers(tx, effects) : NOTHING_FIRED
  const rejected = applyChanges(tx, effects, batch.changes)
  appendEntries(tx, batch.changes, rejected)
  const rowsToUnblock: RowToUnblock[] = []
  effects.apply(rowsToUnblock)
  const cancelling = cancellingRuns(tx)
  const moreToCancel = cancelPending(tx, effects, cancelling)
  const moreOverdue = cancelOverdue(tx, effects)
  effects.apply()
  const closed = closeRuns(tx, cancelling)
  for (const { runSeq } of closed) effects.touch(runSeq)
  if (effects.concernsOthers(batch.gate.lanes)) tx.wake.noteWorkLeft()
  effects.unpark()

  const claimer = claimerOf(tx, batch.holder)
  const { work, gate } = batch
  const claim = fired.expiredRowsLeft ? { ...work, maxClaims: 0 } : work
  // Before the claims of the gate: some of the unblocked rows go to the gate.
  const claimedOnUnblock = unblockAndClaim(tx, claimer, claim, rowsToUnblock)
  const resumed = claimResumed(tx, claimer, { lanes: gate.lanes, maxClaims: resumedShare(gate.maxClaims) })
  const gates = claimGates(tx, claimer, { lanes: gate.lanes, maxClaims: gate.maxClaims - resumed.claims.length }, cursors.gate)
  const claimed = claimWork(tx, claimer, { ...claim, maxClaims: claim.maxClaims - claimedOnUnblock.length }, cursors.work)
  const dispatched = [...claimedOnUnblock, ...claimed.rows]
  if (leavesFunctions(tx, rowsToUnblock, dispatched)) tx.wake.noteWorkLeft()
  tx.wake.noteRowsClaimed(() => hasReadyRows(tx))
  for (const { runSeq, node, path, lane, item, attempt } of dispatched)
    emitTask(tx, { runSeq, node, path, lane, jobName: item }, { status: "dispatched", at: tx.at, attempt })
  return {
    rejected,
    claims: toClaims(tx, dispatched),
    gateClaims: [...resumed.claims, ...gates.claims],
    cancelling: cancellingRunsOf(tx, batch.holder, cancelling, closed),
    stopRequests: stopRequestsOf(tx, claimer),
    closed,
    events: tx.events,
    more: fired.more || moreToCancel || moreOverdue || resumed.more || gates.more || claimed.more,
    nextDueMs: soonest(soonest(nextDueMs(tx), tx.queues.waitMs), resumed.nextMs),
  }
}
