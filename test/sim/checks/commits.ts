// Records what each store call committed (claims, applied results, requests of users that took effect), and checks it against the
// tables and the attempt log.

import { isDeepStrictEqual } from "node:util"
import type { Change, Fence } from "../../../src/core/model/change.ts"
import type { RetryReset } from "../../../src/core/rules/runs/retry-plan.ts"
import { Conflict } from "../../../src/store/contract/errors.ts"
import type { NewSignal, NewStep, SignalOutcome } from "../../../src/store/contract/functions.ts"
import type { CreateJobsOptions, JobEdit, JobRejection, JobRow, NewJob } from "../../../src/store/contract/jobs.ts"
import type { QueueSettings } from "../../../src/store/contract/queues.ts"
import type { AdvanceResult, Batch, Claim, NewLeaseHolder, OrphanedAttempt } from "../../../src/store/contract/store.ts"
import type { TransactionStep } from "../../../src/store/contract/transactions.ts"
import type { TaskRecord } from "../database/table-reader.ts"
import type { EngineProcess } from "../engine/engine-process.ts"
import type { StoreMethod } from "../engine/faulty-store.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { isDeferred } from "./attempt-log.ts"
import { FiredTicks } from "./fired-ticks.ts"
import { isInTimedOutGroup } from "./group-timeouts.ts"
import { isLive } from "./model.ts"
import { Removals } from "./removals.ts"
import { checkRetryBudget } from "./retry-budget.ts"
import { checkRetried, checkRetryPlan, type RetrySnapshot } from "./user-retries.ts"

/** A change that ends an attempt. */
export type ResultChange = Extract<Change, { kind: "finish" | "retry" }>

const hasResult = (change: Change): change is ResultChange => change.kind === "finish" || change.kind === "retry"

interface PerformedCall {
  method: StoreMethod
  args: unknown[]
  value: unknown
  /** See `SimDatabase.refresh`. */
  wakeUp: string | null
}

export class CommitLog {
  readonly #simulation: Simulation
  /** The holder that claimed each attempt. */
  readonly holders = new Map<string, string>()
  /** When attempts began to wait: the time of day, and the milliseconds since the start of the simulation. */
  readonly waits = new Map<string, { at: number; elapsed: number }>()
  /** Runs that a user cancelled, with the time. */
  readonly cancelled = new Map<string, number>()
  /** Runs that a user paused. */
  readonly paused = new Set<string>()
  readonly created = new Set<string>()
  readonly #appliedAttempts = new Set<string>()
  readonly #committedBatches = new WeakSet<readonly Change[]>()
  readonly #firedTicks: FiredTicks
  readonly removals: Removals
  /** Runs that closed as a success, in this order. */
  readonly successes: string[] = []
  #pendingRetry: RetrySnapshot | null = null
  /** Retried runs that wait for a place under max_active_runs. */
  readonly #queuedRetries = new Map<string, RetrySnapshot>()
  /** The highest id of a task before the current `advance`. */
  #lastTaskBefore = 0
  /** Store calls that succeeded. */
  count = 0

  constructor(simulation: Simulation) {
    this.#simulation = simulation
    this.#firedTicks = new FiredTicks(simulation)
    this.removals = new Removals(simulation)
  }

  beforeCall(method: StoreMethod, args: unknown[]): void {
    if (method === "advance") this.#lastTaskBefore = this.#simulation.tables.lastTask()
    if (method === "reapHolders") this.#simulation.noteExpiredLeases()
    if (method === "fireTicks") this.#firedTicks.beforeFire()
    if (method === "removeRun") this.removals.beforeRemoval(args[0] as string)
    if (method !== "retryRun") return
    const [runId, plan] = args as [string, RetryReset]
    this.#pendingRetry = this.removals.has(runId) ? null : checkRetryPlan(this.#simulation, runId, plan)
  }

  failedCall(process: EngineProcess, method: StoreMethod, error: Error): void {
    if (method === "removeRun" && error instanceof Conflict) return
    // The code of the transaction has failed.
    if (method === "recordInTransaction") return
    const message = `${method} of ${process.name}: ${error.stack ?? error.message}`
    this.#simulation.fail(new Violation("the store accepts every call", message))
  }

  afterCall(process: EngineProcess, { method, args, value, wakeUp }: PerformedCall): void {
    this.count += 1
    this.#checkRetriedRuns()
    const runId = args[0] as string
    switch (method) {
      case "advance":
        this.#afterAdvance(process, args[0] as Batch, value as AdvanceResult)
        break
      case "createRuns":
        for (const { run } of value as { run: { id: string } }[]) this.created.add(run.id)
        break
      case "requestCancel":
        if (value === true && !this.cancelled.has(runId)) this.cancelled.set(runId, this.#simulation.clock.now())
        break
      case "setPaused":
        if (value === true && args[1] === true) this.paused.add(runId)
        else this.paused.delete(runId)
        break
      case "removeRun":
        this.removals.afterRemoval(runId)
        break
      case "fireTicks":
        this.#firedTicks.afterFire()
        break
      case "retryRun":
        if (value === true) this.#afterRetry(runId)
        if (value === true) this.#simulation.functions.afterRetry(runId, args[1] as RetryReset)
        this.#checkRetriedRuns()
        break
      case "registerHolder":
        process.lease = (args[0] as NewLeaseHolder).id
        break
      case "deregisterHolder":
        // Its unfinished attempts count as lost.
        this.#simulation.deadHolders.add(args[0] as string)
        break
      case "loadFunctions":
        this.#simulation.functions.afterLoad(args[0] as number[])
        break
      case "recordSteps":
        this.#simulation.functions.afterRecord(args[0] as NewStep[], value as string[])
        break
      case "recordInTransaction":
        this.#simulation.functions.afterTransaction(args[0] as TransactionStep, value as boolean)
        break
      case "sendSignal":
        this.#simulation.functions.afterSignal(args[0] as NewSignal, value as SignalOutcome)
        break
      case "createJobs":
        this.#simulation.jobs.noteCreated(args[0] as NewJob[], value as JobRow[] | JobRejection, args[1] as CreateJobsOptions)
        break
      case "cancelJob":
        this.#simulation.jobs.noteCancelled(args[0] as string, value as object)
        break
      case "retryJob":
        this.#simulation.jobs.noteRetried(args[0] as string, value as object)
        break
      case "deleteJob":
        this.#simulation.jobs.noteDeleted(args[0] as string, value as JobRejection | null)
        break
      case "editJob":
        this.#simulation.jobs.noteEdited(args[0] as string, args[1] as JobEdit, value as object)
        break
      case "putQueue":
        this.#simulation.queues.noteSettings(args[0] as string, args[1] as Partial<QueueSettings>)
        break
      case "reapHolders":
        this.#checkReaped(value as OrphanedAttempt[])
        break
      default:
        break
    }
    this.#simulation.log(process, `${method} ${summarize(value)}`)
    if (wakeUp !== null) this.#simulation.deliverWakeUp(process, wakeUp)
  }

  // -- advance -------------------------------------------------------------------------------------------------------------------

  #afterAdvance(process: EngineProcess, batch: Batch, advanced: AdvanceResult): void {
    const rejected = new Set<string>(advanced.rejected.map((fence) => fence.attemptId))
    if (this.#committedBatches.has(batch.changes)) this.#checkRepeatedBatch(batch, rejected)
    this.#committedBatches.add(batch.changes)
    for (const change of batch.changes) {
      if (!hasResult(change)) continue
      if (!rejected.has(change.attemptId) || this.#wasAppliedNow(change)) this.#apply(change)
      else this.#checkRejected(change, batch)
    }
    for (const change of batch.changes) {
      if (change.kind !== "wait" || !this.#isWaiting(change)) continue
      const { kind } = change.waitingOn
      this.#noteWait(change.attemptId)
      if (kind === "approval" || kind === "callback") this.#simulation.onExternalWait(change.row, change.attemptId, kind)
    }
    for (const { runId, status } of advanced.closed) {
      this.paused.delete(runId)
      this.removals.noteClosed(runId)
      if (status === "success") this.successes.push(runId)
    }
    if (batch.work.maxClaims > 0) process.holder = batch.holder
    for (const claim of [...advanced.claims, ...advanced.gateClaims]) this.holders.set(claim.attemptId, batch.holder)
    for (const claim of advanced.claims) this.#checkClaim(claim)
    this.#simulation.queues.checkClaims(advanced.claims)
    this.#checkPriority(batch, advanced)
  }

  #noteWait(attemptId: string): void {
    const { clock } = this.#simulation
    if (!this.waits.has(attemptId)) this.waits.set(attemptId, { at: clock.now(), elapsed: clock.elapsed })
  }

  /** Returns whether a wait was applied. Its fence may be rejected for another change that follows it. */
  #isWaiting({ row: id, attemptId }: Fence): boolean {
    const row = this.#simulation.tables.taskByRow(id)
    return row !== undefined && row.attempt_id === attemptId && row.waiting_on !== null
  }

  /** A batch that was committed before and arrives again must change nothing. */
  #checkRepeatedBatch(batch: Batch, rejected: Set<string>): void {
    const applied = batch.changes.find((change) => hasResult(change) && !rejected.has(change.attemptId))
    if (applied === undefined) return
    throw new Violation("a result is applied once", `${applied.kind} of ${applied.attemptId} was applied a second time`)
  }

  /** A fence is also rejected for a start that follows the result; then the result itself was applied. */
  #wasAppliedNow({ attemptId, row: id, ...change }: ResultChange): boolean {
    if (this.#appliedAttempts.has(attemptId)) return false
    const row = this.#simulation.tables.taskByRow(id)
    if (change.kind === "retry" && !this.#wasCancelled(row, attemptId))
      return this.#simulation.tables.attempts(id).some((past) => past.attempt_id === attemptId)
    const status = change.kind === "retry" ? "cancelled" : change.status
    return row !== undefined && row.attempt_id === attemptId && row.status === status
  }

  #checkRejected(change: ResultChange, { changes }: Batch): void {
    const row = this.#simulation.tables.taskByRow(change.row)
    if (row === undefined || row.attempt_id !== change.attemptId || !isLive(row)) return
    if (changes.some(({ kind, attemptId }) => kind === "release" && attemptId === change.attemptId)) return
    if (change.result.state === "lost") {
      // An attempt that waits has no holder that could lose it.
      if (row.waiting_on !== null) return
      // The run is being cancelled, which rejects a suspension and what follows it; the attempt is found lost again.
      if (changes.some(({ kind, attemptId }) => kind === "wait" && attemptId === change.attemptId)) return
    }
    throw new Violation(
      "no valid result is rejected",
      `${change.kind} of row ${change.row}, which still has ${change.attemptId}`,
    )
  }

  /** Returns whether the timeout of a group, or the cancel of a job, replaced the retry of this attempt by its cancellation. */
  #wasCancelled(row: TaskRecord | undefined, attemptId: string): boolean {
    if (row?.status !== "cancelled" || row.attempt_id !== attemptId) return false
    return row.run_seq === 0 ? this.#simulation.jobs.isCancelled(row.path) : isInTimedOutGroup(this.#simulation, row)
  }

  #apply(reported: ResultChange): void {
    const { tables, attemptLog, clock } = this.#simulation
    const { attemptId, result } = reported
    const row = tables.taskByRow(reported.row)
    const isCancelled = reported.kind === "retry" && this.#wasCancelled(row, attemptId)
    const change: ResultChange = isCancelled ? { ...reported, kind: "finish", status: "cancelled" } : reported
    const what = `${change.kind} of row ${change.row} ${attemptId}`
    if (this.#appliedAttempts.has(attemptId)) throw new Violation("a result is applied once", what)
    this.#appliedAttempts.add(attemptId)
    if (this.#simulation.jobs.isOfDeleted(attemptId)) return
    if (row === undefined) throw new Violation("no valid result is rejected", `${what}: there is no such row`)
    this.#checkReported(change, what)
    checkStored(change, row, what)
    if (row.run_seq === 0) return this.#simulation.jobs.apply(row.path, change)
    const run = tables.runBySeq(row.run_seq)
    const history = attemptLog.history(run.id, row.node, row.path)
    checkRetryBudget(this.#simulation, { run, row, history, change })
    const retryAfterMs = result.retryAfterMs ?? null
    const { kind } = change
    history.applied.push({
      id: attemptId,
      kind,
      state: result.state,
      at: clock.now(),
      elapsed: clock.elapsed,
      retryAfterMs,
    })
    if (change.kind === "finish") history.succeeded = change.status === "success"
  }

  /** A committed result must be the one that the task reported. An attempt is lost only if its holder is dead. */
  #checkReported({ attemptId, result }: ResultChange, what: string): void {
    const attempt = this.#simulation.attemptLog.attempts.get(attemptId)
    if (attempt === undefined) return
    const reported = attempt.result
    if (result.state !== "lost" && !isDeferred(attempt)) {
      if (reported?.state === result.state && isDeepStrictEqual(reported.output, result.output)) return
      const states = `committed ${result.state}, but the task reported ${reported?.state ?? "nothing yet"}`
      throw new Violation("committed results are those that tasks report", `${what}: ${states}`)
    }
    if (result.state === "lost" && reported?.state !== "lost" && !this.#simulation.isAbandoned(attempt)) {
      throw new Violation("only dead holders lose attempts", `${what}, which ${attempt.process.name} still has`)
    }
  }

  #checkClaim(claim: Claim): void {
    if (claim.kind === "job") return this.#simulation.jobs.checkClaim(claim)
    const { runId } = claim
    const isHook = this.#simulation.simNodeOf(claim.run.workflow, claim.node).node.hook !== null
    if (this.paused.has(runId)) throw new Violation("a paused run starts nothing", `row ${claim.row} of ${runId}`)
    if (!isHook && this.cancelled.has(runId)) {
      throw new Violation("a cancelled run starts nothing", `row ${claim.row} of ${runId}`)
    }
  }

  /** When all slots are in use, no ready row without a limit may have a higher priority than a claimed one. */
  #checkPriority(batch: Batch, advanced: AdvanceResult): void {
    if (advanced.claims.length < batch.work.maxClaims || advanced.more) return
    const { tables, database } = this.#simulation
    const lowest = Math.min(...advanced.claims.map((claim) => claim.priority))
    const last = database.claimsNewHooks ? tables.lastTask() : this.#lastTaskBefore
    const lanes = batch.work.lanes.filter((lane) => !this.#simulation.queues.isBound(lane))
    const higher = tables.readyAbove(lowest, lanes, last)
    if (higher === undefined) return
    throw new Violation("the highest priority goes first", `row ${higher.id} of ${higher.priority} waits behind ${lowest}`)
  }

  // -- other calls ---------------------------------------------------------------------------------------------------------------

  #afterRetry(runId: string): void {
    this.cancelled.delete(runId)
    this.paused.delete(runId)
    this.removals.checkRetried(runId)
    if (this.#pendingRetry === null) {
      throw new Violation("a retry resets the right tasks", `${runId} had not closed, or closed again`)
    }
    this.#simulation.noteRetry(runId)
    this.#queuedRetries.set(runId, this.#pendingRetry)
  }

  /** Checks the retried runs that this call started again. Those that were cancelled before are as they had closed. */
  #checkRetriedRuns(): void {
    for (const [runId, snapshot] of this.#queuedRetries) {
      const { status } = this.#simulation.tables.run(runId)!
      if (status === "pending") continue
      this.#queuedRetries.delete(runId)
      if (status === "running") checkRetried(this.#simulation, snapshot)
    }
  }

  #checkReaped(attempts: OrphanedAttempt[]): void {
    for (const { attemptId } of attempts) {
      const holder = this.holders.get(attemptId)
      if (holder === undefined || this.#simulation.deadHolders.has(holder)) continue
      throw new Violation("only dead holders lose attempts", `${attemptId} of ${holder}`)
    }
  }
}

const checkStored = (change: ResultChange, row: TaskRecord, what: string): void => {
  const isCurrent = row.attempt_id === change.attemptId
  if (change.kind === "finish" && (row.status !== change.status || !isCurrent)) {
    throw new Violation("an acknowledged change is stored", `${what}: the row is ${row.status} with ${row.attempt_id}`)
  }
  if (change.kind === "retry" && isCurrent) {
    throw new Violation("an acknowledged change is stored", `${what}: the row still has this attempt`)
  }
}

const summarize = (value: unknown): string => {
  if (value === undefined || value === null || typeof value !== "object") return String(value)
  if (Array.isArray(value)) return `returns ${value.length}`
  const { more, nextDueMs, ...lists } = value as Partial<AdvanceResult>
  const parts: string[] = []
  for (const name of ["rejected", "claims", "gateClaims", "closed", "cancelling"] as const) {
    const list = lists[name]
    if (Array.isArray(list) && list.length > 0) parts.push(`${name} ${list.length}`)
  }
  if (more === true) parts.push("more")
  if (typeof nextDueMs === "number") parts.push(`due in ${nextDueMs} ms`)
  return parts.join(", ")
}
