// One turn of the loop in one transaction: timers, changes and what they unblock, cancels, closed runs, freed slots, claims. Statements
// that do not depend on a reply are sent together: changes, claims and the poll first, then what the claims need and COMMIT. Only a turn
// that meets limits, cancels, timers or closed runs takes more round trips.
//
// The order of `await` matters: `tx.run` sends its statement when it is called, and statements of a transaction run in the order in which
// they are sent. A function that "sends its statement before it returns" may be called without awaiting it, under `pipelined`, so that the
// next statement follows in the same round trip; an `await` before that would add one.

import type { Fence } from "../../../core/model/change.ts"
import { soonest } from "../../../core/time/soonest.ts"
import { MAX_CANDIDATES, resumedShare } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { JobRow } from "../../contract/jobs.ts"
import type { AdvanceResult, Batch } from "../../contract/store.ts"
import { cacheableResults, type FinishedTask } from "../cache/cache.ts"
import { appendAudit } from "../admin/keys.ts"
import { type TurnClaims, type Claims, NOTHING_CLAIMED, type SentClaims } from "../claim/claim.ts"
import { type ClaimRequest, claimRequest } from "../claim/candidates.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import { loadRuns } from "../cache/run-info.ts"
import { toClaims, toTaskClaims } from "../claim/to-claims.ts"
import { WAKE_STORES } from "../connection/listener.ts"
import { pipelined } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import {
  dependentEvents,
  type DependentChanges,
  type FinishedJobs,
  lockDependents,
  propagateFinishes,
} from "../jobs/dependents.ts"
import {
  type AppliedChanges,
  applyChanges,
  type AttemptUpdate,
  type ChangePlan,
  lockRuns,
  planChanges,
  usesLimits,
} from "./apply-changes.ts"
import { type CancelResult, cancelPending } from "./cancel-pending.ts"
import { type CloseResult, closeRuns } from "./close-runs.ts"
import type { CoalescedChanges } from "./coalesce-changes.ts"
import { appendEvents } from "./event-log.ts"
import { emitCancelled, emitChanges, emitClaims, emitClosed } from "./events.ts"
import { findInFlight } from "./find-in-flight.ts"
import type { Finish } from "./finish.ts"
import { planFinishes } from "./finish-attempts.ts"
import { OutdatedPlan } from "./finish-successes.ts"
import { amendOverdue, cancelOverdue } from "./group-timeouts.ts"
import { expectsPendingWork, type LoopHints, type TurnState } from "./hints.ts"
import { areJobSuccesses } from "./finish-job-successes.ts"
import { finishJobs, lockAndAmendJobs, lockRows, updatedRows } from "./jobs-in-turn.ts"
import { addCancelNotifications, addFinishNotifications } from "./notify-tasks.ts"
import { type ExpiredJobs, NOTHING_EXPIRED } from "../jobs/expiry.ts"
import { type FiredTimers, fireTimers, type PendingWork, readPendingWork } from "./timers.ts"
import { claimResumed } from "./waiting.ts"

/** Parameters of NOTIFY: the channel of the stores on one database, and this store's name. */
export interface WakeParams {
  channel: string
  sender: string
}

export interface TurnInput {
  batch: Batch
  coalesced: CoalescedChanges
  /** Limits of which earlier transactions could not unpark a row. */
  missedLimits: readonly number[]
  hints: LoopHints
  claims: Claims
  wakeParams: WakeParams
  /** Whether an earlier try of the turn met something unexpected (`OutdatedPlan`): this one verifies each fence, and fires timers before it claims. */
  isRepeated: boolean
  /** Jobs that the transaction creates before the turn, which claims them. Their statements were sent. */
  creating: Promise<readonly JobRow[]> | null
}

/** A committed turn: the reply to the engine, and what the loop keeps of it. */
export interface CommittedTurn {
  advanced: AdvanceResult
  observed: TurnState
  updates: readonly AttemptUpdate[]
  applied: AppliedChanges["outcomes"]
  results: ReadonlyMap<string, FinishedTask>
  /** Rows of the claims for the gate, then of those for work, in their order. */
  rows: readonly ClaimedRow[]
}

export const advance = async (tx: Tx, input: TurnInput): Promise<CommittedTurn> => {
  const { batch, hints } = input
  const prepared = await prepareUpdates(tx, input)
  const { plan, overdue } = prepared
  const inOrder = input.isRepeated || expectsPendingWork(hints, tx.clock.localNow()) || usesLimits(plan) || overdue.size > 0
  const first = await (inOrder ? applyInOrder(tx, input, prepared) : applyTogether(tx, input, prepared))
  const recorded = pipelined(addFinishNotifications(tx, appliedFinishes(plan, first.applied)))
  const cancelling = first.pending.cancelling.map(({ runSeq }) => runSeq)
  const cancelled = cancelling.length === 0 ? null : await cancelPending(tx, cancelling)
  const overdueCancelled = overdue.size === 0 ? null : await cancelOverdue(tx, overdue)
  const closed = await closeRuns(tx, [...new Set([...first.applied.finish.closableRuns, ...cancelling])])
  const ends: Ends = { cancelled, overdueCancelled, closed }
  const claiming = first.expiredRowsLeft ? { ...input, batch: withoutWork(batch) } : input
  const { claimed, unparked } = await freeSlotsAndClaimRest(tx, claiming, first, ends)
  const pending = await readPendingWorkAgain(tx, batch, first, ends)
  await recorded
  const created = (await input.creating) ?? []
  const outcome: Outcome = { ...first, ...ends, pending, claimed }
  await emitEvents(tx, plan, outcome)
  return finishTurn(tx, input, prepared, outcome, created.length + unparked + countReady(outcome))
}

const withoutWork = (batch: Batch): Batch => ({ ...batch, work: { ...batch.work, maxClaims: 0 } })

/** Frees the slots that the turn gives back, unparks rows for them, and claims the rows that the first steps did not claim. */
const freeSlotsAndClaimRest = async (
  tx: Tx,
  { batch, claims, missedLimits }: TurnInput,
  { applied, dependents, claimed: claimedFirst, ...first }: FirstSteps,
  { cancelled, overdueCancelled, closed }: Ends,
): Promise<{ claimed: TurnClaims; unparked: number }> => {
  const { freed } = applied
  for (const row of rowsOf(cancelled, overdueCancelled)) if (row.was_ready) freed.unparkInPlaceOf(row.limits)
  for (const limits of first.expiredJobs.limits) freed.unparkInPlaceOf(limits)
  freed.unparkInPlaceOf(missedLimits, MAX_CANDIDATES)
  const { maxClaims, lanes } = batch.work
  const canClaim = claimedFirst.work.length < maxClaims
  const unparked = await (canClaim ? freed.applyForClaim(tx, lanes) : freed.apply(tx))
  const becameReady =
    cancelled !== null ||
    overdueCancelled !== null ||
    applied.queueFreed ||
    dependents.ready.length + unparked + closed.rows > 0
  const isGateUnclaimed = first.pending.gateReady && !first.gateClaimSent
  const claimsRest = becameReady || first.readyRowsMayBeLeft || isGateUnclaimed || claims.byQueue
  const claimed = claimsRest ? await claims.claimRest(tx, batch, claimedFirst) : claimedFirst
  const unparkedRest = await freed.unparkRest(tx, claimed.work)
  const mayClaimMore = unparkedRest > 0 && claimed.work.length < maxClaims
  return { claimed: { ...claimed, more: claimed.more || mayClaimMore }, unparked: unparked + unparkedRest }
}

/** Reads the pending work again if the turn has changed it since the first steps read it. */
const readPendingWorkAgain = async (
  tx: Tx,
  batch: Batch,
  { applied, pending, timersFired }: FirstSteps,
  { cancelled, overdueCancelled, closed }: Ends,
): Promise<PendingWork> => {
  const isChanged =
    cancelled !== null || overdueCancelled !== null || applied.timeoutStarted || closed.resumed || closed.started.length > 0
  return isChanged || timersFired ? readPendingWork(tx, batch) : pending
}

/** Returns how many rows the turn made ready, apart from unparked and created ones. */
const countReady = ({ timersReady, applied, dependents, closed, overdueCancelled }: Outcome): number =>
  timersReady + applied.ready + dependents.ready.length + closed.rows + (overdueCancelled === null ? 0 : 1)

interface PreparedUpdates {
  plan: ChangePlan
  rejected: Fence[]
  /** Groups with passed timeouts below which rows must be cancelled. Timers add to it. */
  overdue: Set<number>
  /** The lock of the rows, when all updates are successes of jobs that are not read (finish-job-successes.ts). Its statement was sent. */
  lockingJobs: Promise<void> | null
}

/** Finds the rows of the changes, locks jobs, and replaces changes that passed timeouts overrule. */
const prepareUpdates = async (
  tx: Tx,
  { coalesced: { attempts, rejected }, isRepeated }: TurnInput,
): Promise<PreparedUpdates> => {
  const { updates: found, lost } = await findInFlight(tx, attempts)
  if (!isRepeated && areJobSuccesses(found)) {
    const lockingJobs = pipelined(lockRows(tx, updatedRows(found)))
    return { plan: planChanges(found), rejected: [...rejected, ...lost], overdue: new Set(), lockingJobs }
  }
  const locked = await lockAndAmendJobs(tx, found)
  await tx.workflows.load(locked.flatMap(({ inFlight }) => (isJobRow(inFlight.runSeq) ? [] : inFlight.versionId)))
  const { updates, overdue } = await amendOverdue(tx, locked)
  return { plan: planChanges(updates), rejected: [...rejected, ...lost], overdue, lockingJobs: null }
}

/** Returns the rows of a plan whose updates are all successes of jobs. */
const completedRows = ({ updates }: ChangePlan): FinishedJobs => ({ completed: updatedRows(updates), failed: [] })

/** State of the turn after its changes were applied. */
interface FirstSteps {
  applied: AppliedChanges
  /** The jobs that depend on jobs that ended in this turn. */
  dependents: DependentChanges
  /** Its rows for the gate include resumed rows. */
  claimed: TurnClaims
  /** Whether this turn has asked for rows for the gate, or leaves that to `claimRest`. */
  gateClaimSent: boolean
  /** Whether rows may be ready that were not claimed yet. */
  readyRowsMayBeLeft: boolean
  pending: PendingWork
  /** Whether timers fired after the poll. */
  timersFired: boolean
  /** Number of rows that timers made ready. */
  timersReady: number
  expiredJobs: ExpiredJobs
  expiredRowsLeft: boolean
}

/** Fires timers, applies the changes and claims resumed rows, one after the other; other claims follow later. */
const applyInOrder = async (tx: Tx, { batch, isRepeated }: TurnInput, prepared: PreparedUpdates): Promise<FirstSteps> => {
  const { plan, overdue, lockingJobs } = prepared
  await lockingJobs
  const locked = pipelined(lockRuns(tx, plan))
  const { ready: timersReady, expiredJobs, expiredRowsLeft } = await fire(tx, overdue)
  await locked
  const finishPlan = planFinishes(
    tx.workflows,
    plan.finishes.map(({ finish }) => finish),
    { verifyEachFence: isRepeated, claim: null, jobSuccesses: lockingJobs !== null },
  )
  const applied = await applyChanges(tx, plan, { finishPlan, gateLanes: batch.gate.lanes })
  const resumed = await claimResumed(tx, resumeRequest(batch, batch.gate.maxClaims))
  const polling = pipelined(readPendingWork(tx, batch))
  const dependents = await (lockingJobs === null
    ? finishJobs(tx, plan.updates, applied)
    : propagateFinishes(tx, completedRows(plan)))
  return {
    applied,
    dependents,
    claimed: { ...NOTHING_CLAIMED, gates: resumed },
    gateClaimSent: true,
    readyRowsMayBeLeft: true,
    pending: await polling,
    timersFired: false,
    timersReady,
    expiredJobs,
    expiredRowsLeft,
  }
}

/** Sends the changes, the claims and the poll together. Claims that depend on the unblocked rows follow later. */
const applyTogether = async (tx: Tx, input: TurnInput, prepared: PreparedUpdates): Promise<FirstSteps> => {
  const { batch, hints, claims, isRepeated } = input
  const { plan, lockingJobs } = prepared
  const finishPlan = planFinishes(
    tx.workflows,
    plan.finishes.map(({ finish }) => finish),
    {
      verifyEachFence: isRepeated,
      claim: claims.byQueue ? null : claimRequest(batch.holder, batch.work),
      jobSuccesses: lockingJobs !== null,
    },
  )
  const claimsUnblocked = finishPlan.successes !== null && finishPlan.successes.claim !== null
  const locked = pipelined(lockRuns(tx, plan))
  const applying = pipelined(applyChanges(tx, plan, { finishPlan, gateLanes: batch.gate.lanes }))
  const lockingDependents = lockingJobs === null ? null : pipelined(lockDependents(tx, completedRows(plan)))
  const sent = claims.send(tx, batch, { gate: hints.gateReady, work: !claimsUnblocked })
  const polling = pipelined(readPendingWork(tx, batch))
  await lockingJobs
  await locked
  const applied = await applying
  const dependents = await (lockingDependents === null
    ? finishJobs(tx, plan.updates, applied)
    : propagateFinishes(tx, completedRows(plan), lockingDependents))
  const claimed = await completeClaims(tx, input, sent, applied)
  const { claimedOnUnblock, claimable } = applied.finish
  const first: FirstSteps = {
    applied,
    dependents,
    claimed,
    gateClaimSent: sent.gate !== null,
    readyRowsMayBeLeft: claimsUnblocked && claimable && claimedOnUnblock.length < batch.work.maxClaims,
    pending: await polling,
    timersFired: false,
    timersReady: 0,
    expiredJobs: NOTHING_EXPIRED,
    expiredRowsLeft: false,
  }
  return first.pending.dueMs !== null && first.pending.dueMs <= 0 ? fireUnexpected(tx, input, prepared, first) : first
}

const completeClaims = async (
  tx: Tx,
  { batch, claims }: TurnInput,
  sent: SentClaims,
  applied: AppliedChanges,
): Promise<TurnClaims> => {
  const claimed = await claims.complete(tx, batch, sent)
  return { ...claimed, work: [...applied.finish.claimedOnUnblock, ...claimed.work] }
}

/** Fires timers that the loop did not expect, and polls again. Throws OutdatedPlan when the turn has claimed a job that has expired. */
const fireUnexpected = async (
  tx: Tx,
  { batch }: TurnInput,
  { overdue }: PreparedUpdates,
  first: FirstSteps,
): Promise<FirstSteps> => {
  const { ready: timersReady, expiredJobs, expiredRows, expiredRowsLeft } = await fire(tx, overdue)
  const { work } = first.claimed
  if (expiredRowsLeft ? work.length > 0 : work.some(({ id }) => expiredRows.includes(id))) throw new OutdatedPlan()
  const resumed = await claimResumed(tx, resumeRequest(batch, batch.gate.maxClaims - first.claimed.gates.length))
  const pending = await readPendingWork(tx, batch)
  const claimed = { ...first.claimed, gates: [...first.claimed.gates, ...resumed] }
  return { ...first, claimed, pending, readyRowsMayBeLeft: true, timersFired: true, timersReady, expiredJobs, expiredRowsLeft }
}

const fire = async (tx: Tx, overdue: Set<number>): Promise<FiredTimers> => {
  const fired = await fireTimers(tx)
  for (const group of fired.groups) overdue.add(group)
  return fired
}

/** Returns the request for resumed rows, of which there may be as many as `available`. */
const resumeRequest = ({ holder, gate }: Batch, available: number): ClaimRequest => ({
  holder,
  lanes: gate.lanes,
  maxClaims: Math.min(resumedShare(gate.maxClaims), available),
})

/** The rows and runs that the turn has ended beside the changes of the batch. */
interface Ends {
  /** Rows of runs that are being cancelled; null: there are none. */
  cancelled: CancelResult | null
  /** Rows below groups whose timeout has passed; null: there are none. */
  overdueCancelled: CancelResult | null
  closed: CloseResult
}

interface Outcome extends FirstSteps, Ends {}

const rowsOf = (...cancels: (CancelResult | null)[]): CancelResult["rows"] => cancels.flatMap((cancel) => cancel?.rows ?? [])

const emitEvents = async (tx: Tx, { updates }: ChangePlan, outcome: Outcome): Promise<void> => {
  const { applied, dependents, cancelled, overdueCancelled, closed, claimed, pending } = outcome
  const { at } = pending
  tx.events.push(...outcome.expiredJobs.events)
  emitChanges(tx, at, updates, applied)
  tx.events.push(...dependentEvents(dependents, at))
  const rows = rowsOf(cancelled, overdueCancelled)
  if (rows.length > 0) {
    const runs = await loadRuns(
      tx,
      rows.map((row) => row.run_seq),
    )
    await tx.workflows.load([...runs.values()].map(({ versionId }) => versionId))
    emitCancelled(tx, at, rows, runs)
    await addCancelNotifications(tx, rows, runs)
  }
  emitClosed(tx, at, closed)
  await tx.workflows.load([...claimed.gates, ...claimed.work].flatMap((row) => (isJobRow(row.run_seq) ? [] : row.version_id)))
  emitClaims(tx, at, claimed.work)
}

/** Returns the finishes whose fence held. */
const appliedFinishes = ({ finishes }: ChangePlan, { outcomes }: AppliedChanges): Finish[] =>
  finishes.flatMap(({ update, finish }) => (outcomes.has(update.attempt) ? finish : []))

/** Logs the events, wakes other stores, builds the claims and commits. `ready`: how many rows the turn made ready. */
const finishTurn = async (
  tx: Tx,
  input: TurnInput,
  prepared: PreparedUpdates,
  outcome: Outcome,
  ready: number,
): Promise<CommittedTurn> => {
  const { plan } = prepared
  const { applied, claimed } = outcome
  const results = cacheableResults(appliedFinishes(plan, applied))
  const logged = pipelined(appendEvents(tx))
  const notified = leavesWork(outcome, plan, ready) ? tx.run(WAKE_STORES, { ...input.wakeParams }) : null
  const gates = pipelined(toTaskClaims(tx, claimed.gates, results))
  const claims = pipelined(toClaims(tx, claimed.work, results))
  await appendAudit(
    tx,
    appliedUpdates(plan, applied).flatMap(({ attempt: { last } }) => last?.auditEntry ?? []),
  )
  void tx.commit()
  await logged
  await notified
  const advanced = toAdvanced(tx, prepared, outcome, { gateClaims: await gates, claims: await claims })
  return {
    advanced,
    observed: observe(tx, input.batch, outcome, advanced.more),
    updates: plan.updates,
    applied: applied.outcomes,
    results,
    rows: [...claimed.gates, ...claimed.work],
  }
}

/** Returns the updates whose fence held. */
const appliedUpdates = ({ updates }: ChangePlan, { outcomes }: AppliedChanges): AttemptUpdate[] =>
  updates.filter(({ attempt }) => outcomes.has(attempt))

const toAdvanced = (
  { events }: Tx,
  { plan, rejected }: PreparedUpdates,
  { applied, pending, closed, claimed, cancelled, overdueCancelled }: Outcome,
  claims: Pick<AdvanceResult, "gateClaims" | "claims">,
): AdvanceResult => {
  const ended = new Set(
    appliedUpdates(plan, applied).flatMap(({ attempt: { last, fence } }) => (last === null ? [] : fence.attemptId)),
  )
  const isDue = pending.dueMs !== null && pending.dueMs <= 0
  return {
    ...claims,
    rejected: distinct([...rejected, ...applied.rejected]),
    cancelling: cancellingRuns(pending, closed)
      .filter(({ ours }) => ours)
      .map(({ runSeq, reason }) => ({ runSeq, reason })),
    stopRequests: pending.stopRequests.filter((attemptId) => !ended.has(attemptId)),
    closed: closed.runs.map(({ runSeq, runId, status }) => ({ runSeq, runId, status })),
    events,
    more: claimed.more || isDue || cancelled?.full === true || overdueCancelled?.full === true,
    nextDueMs: soonest(pending.dueMs === null ? null : Math.max(0, Math.ceil(pending.dueMs)), claimed.rateWaitMs),
  }
}

/** Returns the runs that are still being cancelled. */
const cancellingRuns = ({ cancelling }: PendingWork, closed: CloseResult): PendingWork["cancelling"] =>
  cancelling.filter(({ runSeq }) => !closed.runs.some((run) => run.runSeq === runSeq))

const observe = ({ clock }: Tx, { gate, work }: Batch, { pending, closed, claimed }: Outcome, more: boolean): TurnState => ({
  localNow: clock.localNow(),
  dueMs: pending.dueMs,
  cancelling: cancellingRuns(pending, closed).length,
  gateReady: pending.gateReady,
  gatesClaimed: claimed.gates.length,
  gateMaxClaims: gate.maxClaims,
  readyDrained: !more && claimed.work.length < work.maxClaims,
})

/** Returns whether other stores must be woken: rows are ready that this turn did not claim, or may be. */
const leavesWork = ({ claimed, cancelled, overdueCancelled }: Outcome, plan: ChangePlan, ready: number): boolean => {
  const own = [...claimed.gates, ...claimed.work].filter(({ enqueued_here }) => enqueued_here === true).length
  const uncounted = usesLimits(plan) || cancelled !== null || overdueCancelled !== null || claimed.unparked
  return ready > own || (uncounted && own > 0)
}

const distinct = (fences: readonly Fence[]): Fence[] => [...new Map(fences.map((fence) => [fence.attemptId, fence])).values()]
