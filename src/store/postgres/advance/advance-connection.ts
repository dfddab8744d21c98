// Runs `advance` on one connection. It repeats a transaction that lost a fence, and keeps caches between transactions.

import { soonest } from "../../../core/time/soonest.ts"
import { NO_RUN } from "../../shared/event-codec.ts"
import type { AdvanceResult, Batch, Claim } from "../../contract/store.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { Claims } from "../claim/claim.ts"
import { claimHead } from "../claim/claim-head.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { asInvalidValue } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { pipelined } from "../connection/statement.ts"
import { newTx, type StoreContext, type Tx } from "../tx.ts"
import { advance, type WakeParams, type CommittedTurn, type TurnInput } from "./advance.ts"
import { coalesceChanges } from "./coalesce-changes.ts"
import { OutdatedPlan, finishSuccesses, planSuccesses } from "./finish-successes.ts"
import { allowsOneRoundTrip, type LoopHints, nextHints } from "./hints.ts"
import type { JointCreations } from "./joint-creations.ts"
import { advanceInOneRoundTrip } from "./one-round-trip.ts"

/** Milliseconds without turns of one round trip after one was rejected: the reason, such as a queue with a limit, usually remains. */
const REJECTED_MS = 10_000

const NO_LANES = { gateLanes: [], freedLimitKeys: [] } as const

/** Milliseconds after which a turn tries again to unpark rows that other transactions had locked. */
const MISSED_MS = 20

/** Parts of the store that its turns use. */
export interface AdvanceParts {
  context: StoreContext
  wakeParams: WakeParams
  creations: JointCreations
  /** State that all connections share: each turn sets the hints for the next turn, whichever connection runs it. */
  shared: { hints: LoopHints }
}

/** Most changes of a turn that creates jobs, which would wait for a large one longer than for a commit of their own. */
const MAX_JOINT_CHANGES = 64

export class AdvanceConnection {
  readonly #pool: ConnectionPool
  readonly #context: StoreContext
  readonly #wakeParams: WakeParams
  readonly #creations: JointCreations
  readonly #shared: AdvanceParts["shared"]
  readonly #claims = new Claims()
  /** Local time until which no turn of one round trip is tried. */
  #oneRoundTripBlockedUntil = 0
  #closedByOverrides: AdvanceResult["closed"] = []
  /** Whether `advance` is in progress. */
  busy = false
  /** Whether the connection has run a turn or a warm-up. */
  #warm = false

  constructor(pool: ConnectionPool, { context, wakeParams, creations, shared }: AdvanceParts) {
    this.#pool = pool
    this.#context = context
    this.#wakeParams = wakeParams
    this.#creations = creations
    this.#shared = shared
  }

  async advance(batch: Batch): Promise<AdvanceResult> {
    const { missedLimits, inFlight } = this.#context.cache
    const input = this.#input(batch, [...missedLimits])
    missedLimits.clear()
    this.busy = true
    this.#warm = true
    try {
      const turn = (await this.#tryWithCreations(input)) ?? (await this.#tryOneRoundTrip(input)) ?? (await this.#runTurn(input))
      const { advanced } = turn
      this.#shared.hints = nextHints(this.#shared.hints, turn.observed)
      this.#updateCache(turn)
      advanced.closed.unshift(...this.#closedByOverrides.splice(0))
      if (missedLimits.size > 0) advanced.nextDueMs = soonest(advanced.nextDueMs, MISSED_MS)
      return advanced
    } catch (error) {
      for (const limit of input.missedLimits) missedLimits.add(limit)
      // The turn may have committed: the rows of its changes are read again.
      for (const { attemptId } of batch.changes) inFlight.delete(attemptId)
      throw asInvalidValue(error)
    } finally {
      this.busy = false
    }
  }

  /** Opens the connection and plans the statements of a turn, which takes longer than the turn, unless it has run one. */
  warmUp({ holder, work: claim }: Batch): void {
    if (this.#warm) return
    this.#warm = true
    const nothing = { holder, lanes: claim.lanes, maxClaims: 0 }
    const planning = this.#transact(async (tx) => {
      const finishing = pipelined(finishSuccesses(tx, planSuccesses(tx.workflows, [], [], null), NO_LANES))
      await claimHead(tx, "work", nothing)
      await finishing
    })
    // Ignored: the next turn meets the same error and reports it.
    planning.catch(() => {})
  }

  /** Runs the turn together with the creation of the jobs that wait for one. Returns null when there are none, or when that fails. */
  async #tryWithCreations(input: TurnInput): Promise<CommittedTurn | null> {
    const { work: claim, changes } = input.batch
    if (claim.maxClaims === 0 || changes.length > MAX_JOINT_CHANGES) return null
    const calls = this.#creations.take()
    if (calls.size === 0) return null
    try {
      const [turn, created] = await this.#transact(async (tx) => {
        const creating = pipelined(calls.createInTurn(tx))
        return [await advance(tx, { ...input, creating }), await creating]
      })
      calls.succeed(created)
      return turn
    } catch (error) {
      calls.fail(error)
      if (error instanceof StoreUnavailable) throw error
      return null
    }
  }

  async #tryOneRoundTrip(input: TurnInput): Promise<CommittedTurn | null> {
    const now = this.#context.clock.localNow()
    if (now < this.#oneRoundTripBlockedUntil || !allowsOneRoundTrip(this.#shared.hints, now) || this.#claims.byQueue)
      return null
    if (input.missedLimits.length > 0 || input.batch.changes.some(({ auditEntry }) => auditEntry !== undefined)) return null
    const onRejected = (): void => void (this.#oneRoundTripBlockedUntil = now + REJECTED_MS)
    return this.#transact((tx) => advanceInOneRoundTrip(tx, input, onRejected))
  }

  /** Runs the turn, and repeats it step by step when it met something unexpected. */
  #runTurn(input: TurnInput): Promise<CommittedTurn> {
    return this.#transact((tx) => advance(tx, input)).catch((error: unknown) => {
      if (!(error instanceof OutdatedPlan)) throw error
      return this.#transact((tx) => advance(tx, { ...input, isRepeated: true }))
    })
  }

  #input(batch: Batch, missedLimits: readonly number[]): TurnInput {
    const [{ hints }, claims, wakeParams] = [this.#shared, this.#claims, this.#wakeParams]
    const coalesced = coalesceChanges(batch.changes)
    return { batch, coalesced, missedLimits, hints, claims, wakeParams, isRepeated: false, creating: null }
  }

  #transact<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#pool.transaction((transaction) => work(newTx(transaction, this.#context)))
  }

  /** Reports runs that overrides closed, with the result of the next `advance`. */
  reportClosed(runs: AdvanceResult["closed"]): void {
    this.#closedByOverrides.push(...runs)
  }

  /** Caches the results of a committed turn and the attempts that are in flight after it. */
  #updateCache({ advanced, updates, applied, results, rows }: CommittedTurn): void {
    const { inFlight, finished } = this.#context.cache
    for (const [key, result] of results) finished.set(key, result)
    for (const { inFlight: cached, attempt } of updates) {
      if (!applied.has(attempt) || attempt.last !== null) inFlight.delete(cached.attemptId)
      else inFlight.set(cached.attemptId, { ...cached, started: cached.started || attempt.start !== null })
    }
    const claims: readonly Claim[] = [...advanced.gateClaims, ...advanced.claims]
    rows.forEach((row, i) => {
      inFlight.set(row.attempt_id, toInFlight(claims[i]!, row, i < advanced.gateClaims.length))
    })
  }
}

/** Returns a claim as the cache stores it. A job has none of a run's values. */
const toInFlight = (claim: Claim, row: ClaimedRow, isGateClaim: boolean): CachedAttempt => {
  const isJob = claim.kind === "job"
  return {
    row: row.id,
    attemptId: claim.attemptId,
    runSeq: row.run_seq,
    runId: isJob ? NO_RUN : claim.runId,
    private: !isJob && claim.run.private,
    rootRunId: isJob ? null : claim.run.rootRunId,
    workflowId: row.workflow_id,
    versionId: isJob ? 0 : claim.versionId,
    node: row.node,
    path: row.path,
    kind: row.kind,
    lane: row.lane,
    attempt: claim.attempt,
    limits: row.limits,
    usesSlots: !isGateClaim,
    started: !isJob && claim.wait !== null,
    generation: isJob ? 0 : row.generation,
    priority: isJob ? 0 : claim.run.priority,
    ...(isJob && { jobName: row.item }),
  }
}
