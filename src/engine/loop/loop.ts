// The loop around `store.advance`. A turn commits a batch of changes from the inbox and claims what may run next; the dispatcher handles
// the claims. Changes, wake-ups, notifications of the store and due timers start a turn; an idle loop runs none.
//
// Phases: new → running → draining (claims nothing, commits what is left) → stopped. While the store is `unavailable`, no turn runs
// until `#recover` succeeds. A batch that the store rejects because of its content (InvalidValue) is committed in parts: only the tasks
// whose changes cannot be stored fail. After any other error the batch is committed again.

import { CommitAcks } from "./commit-acks.ts"
import { type InboxBatch, ShardedInbox } from "./sharded-inbox.ts"
import { type ContentChange, substitutesOf } from "./substitute-changes.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change, Fence } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { HolderId } from "../../core/model/ids.ts"
import { longestSleepMs } from "../../core/time/longest-sleep.ts"
import { clampChange } from "../../core/rules/changes/clamp-change.ts"
import { InvalidValue } from "../../store/contract/errors.ts"
import type { AdvanceResult, Batch } from "../../store/contract/store.ts"

/** A start may wait this long to be committed together with the end of its attempt. */
const COALESCE_MS = 25
const RETRY_MIN_MS = 50
const RETRY_MAX_MS = 1000

export const CLAIM_NOTHING: Batch["work"] = { lanes: [], maxClaims: 0 }

/** The part of the dispatcher that the loop uses. */
export interface LoopDispatcher {
  /** Nothing is in flight. */
  readonly idle: boolean
  has(attemptId: string): boolean
  /** Returns how much work to claim beside `reserved` claims that other turns may still get. */
  claimCapacity(reserved: number): Batch["work"]
  /** Returns how much to claim for the gate beside `chunks` of expansions that are not committed yet. */
  gateCapacity(chunks: number): Batch["gate"]
  /** Handles everything that an advance returned for this engine. `release`: claims are released unstarted. */
  dispatch(advanced: AdvanceResult, options: { release: boolean }): void
}

export interface LoopParts {
  dispatcher: LoopDispatcher
  holderId(): HolderId
  /** Publishes the events and closed runs of a commit of these changes. */
  publish(changes: readonly Change[], advanced: AdvanceResult): void
  /** Called when the store is available again: commits whose outcome is unknown may have closed runs. */
  recovered(): void
}

type Phase = "new" | "running" | "draining" | "stopped"

/** One call of `advance`. */
interface Turn {
  inboxBatch: InboxBatch
  batch: Batch
  /** Claims that this turn may still return; they count against the capacity of other turns. */
  reserved: number
}

export class Loop {
  readonly #options: EngineOptions
  readonly #parts: LoopParts
  readonly #inbox: ShardedInbox
  readonly #acks = new CommitAcks()

  #phase: Phase = "new"
  #store: "available" | "unavailable" = "available"
  /** Failed calls of `advance` since the last successful one. */
  #failures = 0
  /** When the first of these failures began. */
  #failingSince: number | null = null
  #problem: string | null = null
  /** When the turns in flight began. */
  readonly #turnsSince = new Map<Turn, number>()
  /** Sum of `reserved` of the turns in flight. */
  #reserved = 0
  /**
   * A turn beside others claimed all it asked for: rows may be left for the capacity that the others do not use, or that was freed
   * after the turn began and for which another found nothing.
   */
  #rowsMayBeLeft = false
  #turnWanted = false
  #turnScheduled = false
  #cancelCoalescing: (() => void) | null = null
  #cancelDue: (() => void) | null = null
  #dueAt = Number.POSITIVE_INFINITY
  #resolveDrained: (() => void) | null = null

  constructor(options: EngineOptions, parts: LoopParts) {
    this.#options = options
    this.#parts = parts
    this.#inbox = new ShardedInbox(options.store.advanceConcurrency, (change, into) => this.#acks.coalesced(change, into))
  }

  get running(): boolean {
    return this.#phase === "running"
  }

  /** Number of changes that are not committed. */
  get pendingChanges(): number {
    return this.#inbox.size
  }

  /** Milliseconds since the begin of the oldest turn that is not committed, in flight or failed; 0 when there is none. */
  get stalledMs(): number {
    const begun = [...this.#turnsSince.values(), ...(this.#failingSince === null ? [] : [this.#failingSince])]
    return begun.length === 0 ? 0 : this.#options.clock.monotonic() - Math.min(...begun)
  }

  /** Why the store did not commit the last batch; null while it commits. */
  get problem(): string | null {
    return this.#problem
  }

  start(): void {
    this.#phase = "running"
    this.wake()
  }

  /** Stops claiming. Resolves when everything in flight has ended and is committed; never while the store is unavailable. */
  drain(): Promise<void> {
    this.#phase = "draining"
    return new Promise((resolve) => {
      this.#resolveDrained = resolve
      this.wake()
    })
  }

  stop(): void {
    this.#phase = "stopped"
    this.#acks.close()
    this.#cancelCoalescing?.()
    this.#cancelDue?.()
  }

  /** Adds a change. Commits it with the next turn, which runs soon unless only starts and progress are waiting. */
  add(change: Change): void {
    this.#enqueue(clampChange(change))
  }

  #enqueue(change: Change): void {
    this.#inbox.add(change)
    if (this.#inbox.urgent) this.wake()
    else this.#wakeSoon()
  }

  /** Adds changes. Resolves after their commit, with the fences that no longer held. */
  commit(changes: readonly Change[]): Promise<Fence[]> {
    const clamped = changes.map(clampChange)
    const acknowledged = this.#acks.track(clamped)
    if (this.#phase !== "stopped") for (const change of clamped) this.#enqueue(change)
    return acknowledged
  }

  /** Makes the loop run a turn. */
  wake(): void {
    if (this.#phase === "new" || this.#phase === "stopped") return
    this.#turnWanted = true
    this.#scheduleTurn()
  }

  /** Checks again whether the loop has drained: an attempt that is left running for another server ends without a change. */
  attemptEnded(): void {
    if (this.#phase === "draining") this.wake()
  }

  #wakeSoon(): void {
    this.#cancelCoalescing ??= this.#options.clock.after(COALESCE_MS, () => this.wake())
  }

  /** Sets the timer. A turn that overlaps others may only move it earlier, because another turn may need the earlier time. */
  #wakeWhenDue(ms: number | null, exclusive: boolean): void {
    const sleepMs = ms === null ? Number.POSITIVE_INFINITY : Math.min(ms, longestSleepMs(this.#options.clock))
    const dueAt = this.#options.clock.monotonic() + sleepMs
    if (!exclusive && this.#dueAt <= dueAt) return
    this.#cancelDue?.()
    this.#dueAt = dueAt
    const due = (): void => {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.wake()
    }
    this.#cancelDue = ms === null ? null : this.#options.clock.after(sleepMs, due)
  }

  // -- turns ---------------------------------------------------------------------------------------------------------------------

  #scheduleTurn(): void {
    if (this.#turnScheduled || !this.#canTurn()) return
    this.#turnScheduled = true
    // In this tick of the event loop: see `Engine.createWithTurn`.
    this.#options.clock.after(0, () => {
      this.#turnScheduled = false
      this.#beginTurns()
    })
  }

  #canTurn(): boolean {
    return this.#store === "available" && this.#phase !== "stopped" && this.#inbox.canAdvance
  }

  /** Begins a turn, and those that may be in flight together with it. */
  #beginTurns(): void {
    while (this.#canTurn()) {
      this.#turnWanted = false
      this.#cancelCoalescing?.()
      this.#cancelCoalescing = null
      const turn = this.#prepareTurn()
      void this.#turn(turn)
      if (turn.inboxBatch.nextBatchSize === null) return
    }
  }

  async #turn(turn: Turn): Promise<void> {
    const { store, clock, observer } = this.#options
    const begunAt = clock.monotonic()
    this.#turnsSince.set(turn, begunAt)
    try {
      const advanced = await store.advance(turn.batch)
      const { length: changes } = turn.batch.changes
      observer?.turn?.({ changes, claims: advanced.claims.length, ms: clock.monotonic() - begunAt })
      this.#handleCommit(turn, advanced)
    } catch (error) {
      this.#unreserve(turn)
      this.#failingSince ??= begunAt
      if (error instanceof InvalidValue) await this.#commitInParts(turn)
      else this.#inbox.requeue(turn.inboxBatch)
      this.#retryLater(error)
    } finally {
      this.#turnsSince.delete(turn)
    }
    if (this.#store === "unavailable") return
    if (this.#turnWanted) this.#scheduleTurn()
    else this.#resolveIfDrained()
  }

  /** Takes a batch from the inbox and reserves the capacity for its claims. */
  #prepareTurn(): Turn {
    const inboxBatch = this.#inbox.nextBatch()
    const { dispatcher, holderId } = this.#parts
    const draining = this.#phase === "draining"
    const sharesCapacity = inboxBatch.nextBatchSize !== null || this.#reserved > 0
    const claim = draining ? CLAIM_NOTHING : this.#shareCapacity(inboxBatch)
    const gate = dispatcher.gateCapacity(this.#inbox.chunks)
    const batch: Batch = {
      holder: holderId(),
      changes: inboxBatch.changes,
      work: claim,
      // The store still needs the lanes, to know which rows are those of other processes.
      gate: draining ? { ...gate, maxClaims: 0 } : gate,
    }
    this.#reserved += batch.work.maxClaims
    if (!sharesCapacity) this.#rowsMayBeLeft = false
    return { inboxBatch, batch, reserved: batch.work.maxClaims }
  }

  /** Leaves up to a half to the turn of the next batch, each change of which may end an attempt and unblock a task. */
  #shareCapacity({ nextBatchSize }: InboxBatch): Batch["work"] {
    const { lanes, maxClaims } = this.#parts.dispatcher.claimCapacity(this.#reserved)
    return { lanes, maxClaims: maxClaims - Math.min(nextBatchSize ?? 0, maxClaims >> 1) }
  }

  #unreserve(turn: Turn): void {
    this.#reserved -= turn.reserved
    turn.reserved = 0
  }

  #handleCommit(turn: Turn, advanced: AdvanceResult): void {
    const { inboxBatch, batch } = turn
    this.#failures = 0
    this.#failingSince = null
    this.#problem = null
    this.#unreserve(turn)
    this.#handle(batch.changes, batch.holder === this.#parts.holderId() ? advanced : withoutClaims(advanced))
    this.#wakeWhenDue(advanced.nextDueMs, inboxBatch.exclusive)
    if (advanced.claims.length === batch.work.maxClaims) {
      if (!inboxBatch.exclusive) this.#rowsMayBeLeft = true
      // All requested rows were claimed and capacity is left: another turn may find more work.
      else if (batch.work.maxClaims > 0 && this.#hasCapacity()) this.#wakeSoon()
    }
    if (this.#rowsMayBeLeft && this.#hasCapacity()) this.#turnWanted = true
    if (advanced.more || this.#inbox.urgent) this.#turnWanted = true
    this.#inbox.complete(inboxBatch)
  }

  #handle(changes: readonly Change[], advanced: AdvanceResult): void {
    this.#acks.committed(changes, advanced.rejected)
    this.#parts.publish(changes, advanced)
    this.#parts.dispatcher.dispatch(advanced, { release: this.#phase === "draining" })
  }

  #hasCapacity(): boolean {
    return this.#parts.dispatcher.claimCapacity(this.#reserved).maxClaims > 0
  }

  #resolveIfDrained(): void {
    if (this.#phase !== "draining" || !this.#inbox.idle || this.#inbox.size > 0 || !this.#parts.dispatcher.idle) return
    this.#resolveDrained?.()
    this.#resolveDrained = null
  }

  // -- a batch that the store rejects ------------------------------------------------------------------------------------------------

  /**
   * Commits a batch in ever smaller parts, and substitutes the changes that the store rejects alone. A store that rejects even a batch
   * without changes has another problem: the changes stay in the inbox.
   */
  async #commitInParts({ inboxBatch, batch }: Turn): Promise<void> {
    const parts: Change[][] = [[], inboxBatch.changes]
    const substitutes = new Set<Change>()
    /** Kept in the inbox: a dropped one would leave its row claimed. */
    const releases: Change[] = []
    for (let part = parts[0]; part !== undefined && this.#phase !== "stopped"; part = parts[0]) {
      try {
        const gate = { ...batch.gate, maxClaims: 0 }
        this.#handle(part, await this.#options.store.advance({ ...batch, changes: part, work: CLAIM_NOTHING, gate }))
        parts.shift()
      } catch (error) {
        if (!(error instanceof InvalidValue) || part.length === 0) break
        const middle = Math.ceil(part.length / 2)
        const change = part[0]!
        if (part.length > 1) parts.splice(0, 1, part.slice(0, middle), part.slice(middle))
        else if (change.kind === "release" || change.kind === "requeue") releases.push(...parts.shift()!)
        else parts.splice(0, 1, ...this.#substitute(change, error, substitutes).map((substitute) => [substitute]))
      }
    }
    this.#inbox.requeue({ ...inboxBatch, changes: [...parts.flat(), ...releases] })
  }

  /** Returns the changes to commit in place of `change`. A substitute that the store rejects too is dropped. */
  #substitute(change: ContentChange, error: unknown, substitutes: Set<Change>): Change[] {
    const { clock, log } = this.#options
    const { row, attemptId, kind } = change
    const replaced = substitutes.has(change) ? [] : substitutesOf(change, messageOf(error), clock.now())
    for (const substitute of replaced) substitutes.add(substitute)
    const consequence = replaced.length > 0 ? "its task fails" : "it is dropped"
    log.error({ row, attempt: attemptId, kind, error: String(error) }, `the store cannot write a change; ${consequence}`)
    if (replaced.length > 0) this.#acks.coalesced(change, replaced[0]!)
    else this.#acks.committed([change], [change])
    return replaced
  }

  // -- an unavailable store --------------------------------------------------------------------------------------------------------

  /** Tries again with back-off. The outcome of a failed call is unknown: its claims may be committed. */
  #retryLater(error: unknown): void {
    const { clock, log, random } = this.#options
    if (this.#phase === "stopped") return
    this.#failures += 1
    this.#problem = messageOf(error)
    const delayMs = Math.min(RETRY_MIN_MS * 2 ** (this.#failures - 1), RETRY_MAX_MS) * (0.5 + random.next() / 2)
    log.warn({ error: String(error), failures: this.#failures }, "the store did not commit a batch; trying again")
    if (this.#store === "unavailable") return
    this.#store = "unavailable"
    clock.after(delayMs, () => void this.#recover())
  }

  /** Releases claims that were committed but never arrived here, and resumes turns. Waits for other turns first: they may claim too. */
  async #recover(): Promise<void> {
    const { clock, store } = this.#options
    if (this.#phase === "stopped") return
    if (!this.#inbox.idle) {
      clock.after(RETRY_MIN_MS, () => void this.#recover())
      return
    }
    try {
      for (const { row, attemptId, resumes } of await store.listInFlight(this.#parts.holderId())) {
        this.#acks.committed(this.#inbox.takeCommittedWaits(attemptId, resumes), [])
        const known = this.#parts.dispatcher.has(attemptId) || this.#inbox.has(attemptId)
        if (!known) this.add({ row, attemptId, kind: "release" })
      }
      this.#parts.recovered()
      this.#store = "available"
      this.wake()
    } catch (error) {
      this.#store = "available"
      this.#retryLater(error)
    }
  }
}

/** Drops claims that arrive after their lease was lost: they are reaped with those of every dead holder, and may run elsewhere already. */
const withoutClaims = (advanced: AdvanceResult): AdvanceResult => ({ ...advanced, claims: [], gateClaims: [] })
