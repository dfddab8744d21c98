// Hands claims to the part of the engine that handles them: attempts run work, the gate decides on rows, waiting tasks are resumed. Counts
// what is in flight in this engine, and how much more it may claim.

import type { Attempts } from "./attempts/attempts.ts"
import { logFieldsOf } from "./attempts/claims.ts"
import { ClaimAhead } from "./claim-ahead.ts"
import type { Gate } from "./gate/gate.ts"
import type { LoopDispatcher } from "./loop/loop.ts"
import type { EngineOptions } from "./ports.ts"
import type { WaitingTasks } from "./waiting/waiting-tasks.ts"
import { type Change, fenceOf } from "../core/model/change.ts"
import type { Assignment, StopReason } from "../executors/executor.ts"
import type { AbandonedRun, AdvanceResult, Batch, Claim, TaskClaim } from "../store/contract/store.ts"
import { gateLane, localLane, REMOTE_WILDCARD, remoteLane, type RunLaneKey } from "../core/routing/lanes.ts"

const MAX_GATE_CLAIMS = 256
const DEFAULT_REMOTE_CONCURRENCY = 1000
/** A gate claim that failed is released after this delay. */
const GATE_RETRY_MS = 50
/** A claim whose launch failed is released after this delay. */
const LAUNCH_RETRY_MS = 1000

export interface DispatcherParts {
  attempts: Attempts
  gate: Gate
  waiting: WaitingTasks
  submit(change: Change): void
  /** Called when an attempt ended, with or without a change. */
  attemptEnded(): void
  /** Called when a waiting task was resumed: it may have created a run. */
  resumed(): void
  /** Called when more attempts may start than at the last claim. */
  capacityGrown(): void
}

export class Dispatcher implements LoopDispatcher {
  readonly #options: EngineOptions
  readonly #parts: DispatcherParts
  readonly #ownLanes: Lanes
  /** Its own lanes, and those of private runs whose `ork run` is dead. */
  #lanes: Lanes
  /** Claims that wait for a slot. */
  readonly #ahead: ClaimAhead
  /** Attempt ids of gate claims in flight. */
  readonly #gateClaims = new Set<string>()
  /** Attempt ids of claims that are released after a delay. */
  readonly #releases = new Set<string>()

  constructor(options: EngineOptions, parts: DispatcherParts) {
    this.#options = options
    this.#parts = parts
    this.#ownLanes = lanesOf(options)
    this.#lanes = this.#ownLanes
    this.#ahead = new ClaimAhead(options.clock, (claim) => this.#release(claim))
  }

  get attemptCount(): number {
    return this.#parts.attempts.size
  }

  get idle(): boolean {
    const { attempts, waiting } = this.#parts
    const inFlight = attempts.size + this.#ahead.size + waiting.watches.size
    return inFlight === 0 && this.#gateClaims.size === 0 && this.#releases.size === 0
  }

  has(attemptId: string): boolean {
    const { attempts, waiting } = this.#parts
    const isInFlight = attempts.has(attemptId) || this.#ahead.has(attemptId) || waiting.watches.has(attemptId)
    return isInFlight || this.#gateClaims.has(attemptId) || this.#releases.has(attemptId)
  }

  /**
   * Returns the free capacity. Local and remote work together are bounded by the smaller free capacity; where one has none, the other
   * is claimed alone.
   */
  claimCapacity(reserved: number): Batch["work"] {
    const { remoteConcurrency = DEFAULT_REMOTE_CONCURRENCY } = this.#options
    const { attempts } = this.#parts
    const { local, remote } = this.#lanes
    const slots = this.#concurrency - (attempts.size - attempts.remote) - this.#ahead.size
    if (remote.length === 0) {
      const extra = slots === this.#concurrency ? this.#ahead.extra(slots, reserved) : 0
      return { lanes: local, maxClaims: Math.max(0, slots + extra - reserved) }
    }
    const freeLocal = slots - reserved
    const freeRemote = remoteConcurrency - attempts.remote - reserved
    if (freeRemote <= 0) return { lanes: local, maxClaims: Math.max(0, freeLocal) }
    if (freeLocal <= 0 || local.length === 0) return { lanes: remote, maxClaims: freeRemote }
    return { lanes: [...local, ...remote], maxClaims: Math.min(freeLocal, freeRemote) }
  }

  get #concurrency(): number {
    return this.#options.adaptiveConcurrency?.current() ?? this.#options.concurrency
  }

  #isFull(): boolean {
    const { attempts } = this.#parts
    return attempts.size - attempts.remote >= this.#concurrency
  }

  gateCapacity(chunks: number): Batch["gate"] {
    return {
      lanes: this.#lanes.gate,
      maxClaims: Math.max(0, MAX_GATE_CLAIMS - this.#gateClaims.size - chunks),
    }
  }

  dispatch(
    { rejected, claims, gateClaims: gates, cancelling, stopRequests }: AdvanceResult,
    { release }: { release: boolean },
  ): void {
    const {
      attempts,
      waiting: { watches },
    } = this.#parts
    for (const { attemptId } of rejected) {
      attempts.lose(attemptId)
      watches.drop(attemptId)
    }
    if (claims.length > 0) this.#ahead.claimed(claims.length)
    for (const claim of claims) {
      if (release) this.#release(claim)
      else if (this.#isFull() && this.#lanes.remote.length === 0) this.#ahead.add(claim)
      else void this.launch(claim)
    }
    if (this.#isFull()) this.#options.adaptiveConcurrency?.full(() => this.#isFull(), this.#parts.capacityGrown)
    for (const claim of gates) void this.#handleGateClaim(claim)
    for (const { runSeq, reason } of cancelling) {
      attempts.cancelRun(runSeq, reason)
      this.#ahead.release((claim) => claim.kind !== "job" && claim.runSeq === runSeq)
      watches.releaseRun(runSeq)
    }
    for (const attemptId of stopRequests) {
      attempts.cancel(attemptId)
      this.#ahead.release((claim) => claim.attemptId === attemptId)
      watches.release(attemptId)
    }
  }

  async launch(claim: Claim, adopted?: Assignment["adopted"]): Promise<void> {
    const { attempts, attemptEnded } = this.#parts
    try {
      await attempts.launch(claim, adopted)
    } catch (error) {
      const fields = { ...logFieldsOf(claim), error: String(error) }
      this.#options.log.error(fields, "failed to launch an attempt; releasing its claim")
      this.#releaseAfter(LAUNCH_RETRY_MS, claim)
    }
    const next = this.#isFull() ? undefined : this.#ahead.next()
    if (next !== undefined) void this.launch(next)
    attemptEnded()
  }

  /**
   * Claims from the lanes of these private runs, and no longer from those of others: for the gate, without which groups, fan-outs and
   * waiting tasks cannot end, and work of closed runs, whose only tasks are hooks. Returns true when there are new lanes.
   */
  claimAbandoned(runs: readonly AbandonedRun[]): boolean {
    const before = new Set(Object.values(this.#lanes).flat())
    this.#lanes = withAbandoned(this.#ownLanes, runs)
    return Object.values(this.#lanes)
      .flat()
      .some((lane) => !before.has(lane))
  }

  stopAttempts(reason: Extract<StopReason, "shutdown" | "lost">): void {
    this.#ahead.releaseAll()
    this.#parts.attempts.stopAll(reason)
    if (reason === "lost") this.#parts.waiting.watches.dropAll()
  }

  /** Evaluates a row for the gate, or resumes a waiting row that is due. */
  async #handleGateClaim(claim: TaskClaim): Promise<void> {
    const { gate, waiting, submit, resumed } = this.#parts
    const isResumed = claim.wait !== null
    this.#gateClaims.add(claim.attemptId)
    try {
      const changes = isResumed ? [await waiting.resume(claim)] : await gate.evaluate(claim)
      for (const change of changes) if (change !== null) submit(change)
    } catch (error) {
      const fields = { run: claim.runId, error: String(error) }
      this.#options.log.warn(fields, "failed to evaluate a task; releasing its claim")
      this.#releaseAfter(GATE_RETRY_MS, claim)
    } finally {
      this.#gateClaims.delete(claim.attemptId)
      if (isResumed) resumed()
    }
  }

  #releaseAfter(ms: number, claim: Claim): void {
    this.#releases.add(claim.attemptId)
    this.#options.clock.after(ms, () => {
      this.#releases.delete(claim.attemptId)
      this.#release(claim)
    })
  }

  #release(claim: Claim): void {
    this.#parts.submit({ ...fenceOf(claim), kind: "release" })
  }
}

/** The lanes that an engine claims from. */
interface Lanes {
  /** Work for this machine. */
  local: string[]
  /** Work that runs elsewhere; empty without an executor for it. */
  remote: string[]
  gate: string[]
}

const SHARED: RunLaneKey = { id: "", private: false }

const privateKey = (id: string): RunLaneKey => ({ id, private: true })

const lanesOf = ({ lanes, executors }: EngineOptions): Lanes => {
  const hasRemote = [...executors.values()].some((executor) => executor.remote === true)
  if (!("privateRun" in lanes)) return { local: lanes, remote: hasRemote ? [REMOTE_WILDCARD] : [], gate: [gateLane(SHARED)] }
  const run = privateKey(lanes.privateRun)
  return { local: [localLaneOf(run)], remote: hasRemote ? [remoteLaneOf(run)] : [], gate: [gateLane(run)] }
}

const localLaneOf = (run: RunLaneKey): string => localLane(run, { queue: "", labels: [] })

const remoteLaneOf = (run: RunLaneKey): string => remoteLane(run, { queue: "" })

/** Adds the lanes in which rows of dead `ork run` processes wait for a server: for the gate, and hooks of closed runs. */
const withAbandoned = ({ local, remote, gate }: Lanes, runs: readonly AbandonedRun[]): Lanes => {
  const closed = runs.filter((run) => run.closed).map(({ runId }) => privateKey(runId))
  return {
    local: [...local, ...closed.map(localLaneOf)],
    remote: remote.length === 0 ? [] : [...remote, ...closed.map(remoteLaneOf)],
    gate: [...gate, ...runs.map(({ runId }) => gateLane(privateKey(runId)))],
  }
}
