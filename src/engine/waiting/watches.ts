// Rows whose conditions this engine checks. The engine keeps their claims, so that no other one checks them, and writes nothing while the
// checks see the same. A row leaves when its condition holds, its time is over, or its run is cancelled; it is released when the engine
// stops, and the store releases it when the engine dies.

import { type Condition, type Finding, isBroken } from "./conditions.ts"
import { SharedTimers } from "./shared-timers.ts"
import type { WaitResult } from "./waiting-tasks.ts"
import { isTaskFault } from "../attempts/task-failure.ts"
import type { EngineOptions } from "../ports.ts"
import { type Change, type Fence, fenceOf } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import { untilNextCheck } from "../../core/model/waiting-on.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

/** Checks of one service at once; others wait for their turn. */
const MAX_PER_KEY = 16
/** Interval at which rows are dropped that a user has finished by hand. */
const PRUNE_MS = 60_000
const RETRY_MS = 1000
const MAX_SEEN = 500
/** Checks that are due within this time start together. Thousands of tasks may wait. */
const MAX_SLACK_MS = 100
/** Part of `every` by which a check may be late. */
const SLACK = 0.1

export interface WatchParts {
  submit(change: Change): void
  /** Finishes the attempt of a row; resolves with null when its fence is lost. */
  finish(fence: Fence, result: WaitResult): Promise<Change | null>
  /** Returns the attempt ids that the engine still owns. */
  owned(): Promise<ReadonlySet<string>>
}

interface Watch {
  fence: ReturnType<typeof fenceOf>
  condition: Condition
  everyMs: number
  timeoutMs: number | null
  /** Start of the attempt, on the monotonic clock. */
  startedAt: number
  seen: string | null
}

export class Watches {
  readonly #options: Pick<EngineOptions, "clock" | "log">
  readonly #parts: WatchParts
  readonly #watches = new Map<string, Watch>()
  /** Checks under way and queued, by the key of their conditions. */
  readonly #queues = new Map<string, { busy: number; next: Watch[] }>()
  readonly #timers: SharedTimers<Watch>
  #stopped = false
  #cancelPrune: (() => void) | null = null

  constructor(options: Pick<EngineOptions, "clock" | "log">, parts: WatchParts) {
    this.#options = options
    this.#parts = parts
    this.#timers = new SharedTimers(options.clock, (watch) => {
      if (this.#isWatched(watch)) this.#queue(watch)
    })
  }

  get size(): number {
    return this.#watches.size
  }

  has(attemptId: string): boolean {
    return this.#watches.has(attemptId)
  }

  /** Starts to check a condition, at once. Returns false when the engine stops. */
  add(claim: TaskClaim, condition: Condition, { everyMs, timeoutMs }: { everyMs: number; timeoutMs: number | null }): boolean {
    if (this.#stopped) return false
    const startedAt = this.#options.clock.monotonic() - claim.wait!.elapsedMs
    const watch: Watch = { fence: fenceOf(claim), condition, everyMs, timeoutMs, startedAt, seen: null }
    this.#watches.set(claim.attemptId, watch)
    this.#queue(watch)
    this.#pruneLater()
    return true
  }

  /** Releases the rows of a run that is being cancelled: they are resumed to end. */
  releaseRun(runSeq: number): void {
    for (const watch of this.#watches.values()) if (watch.fence.shardKey === runSeq) this.#release(watch)
  }

  release(attemptId: string): void {
    const watch = this.#watches.get(attemptId)
    if (watch !== undefined) this.#release(watch)
  }

  /** Releases all rows, for the engine that resumes them next. */
  stop(): void {
    this.#stopped = true
    this.#cancelPrune?.()
    this.#timers.cancelAll()
    for (const watch of this.#watches.values()) this.#release(watch)
  }

  /** Forgets a row that another engine owns now. */
  drop(attemptId: string): void {
    this.#watches.delete(attemptId)
  }

  dropAll(): void {
    this.#timers.cancelAll()
    this.#watches.clear()
  }

  #release({ fence }: Watch): void {
    this.drop(fence.attemptId)
    this.#parts.submit({ ...fence, kind: "release" })
  }

  #isWatched(watch: Watch): boolean {
    return this.#watches.get(watch.fence.attemptId) === watch
  }

  // -- checks ------------------------------------------------------------------------------------------------------------------------

  #queue(watch: Watch): void {
    const { key } = watch.condition
    const queue = this.#queues.get(key) ?? { busy: 0, next: [] }
    this.#queues.set(key, queue)
    if (queue.busy >= MAX_PER_KEY) queue.next.push(watch)
    else void this.#checkInTurn(key, queue, watch)
  }

  async #checkInTurn(key: string, queue: { busy: number; next: Watch[] }, first: Watch): Promise<void> {
    queue.busy += 1
    for (let watch: Watch | undefined = first; watch !== undefined; watch = queue.next.shift()) {
      if (this.#isWatched(watch)) await this.#check(watch)
    }
    queue.busy -= 1
    if (queue.busy === 0) this.#queues.delete(key)
  }

  async #check(watch: Watch): Promise<void> {
    const result = this.#timedOut(watch) ?? (await this.#find(watch))
    if (!this.#isWatched(watch)) return
    try {
      if (result === null) this.#scheduleNext(watch)
      else await this.#finish(watch, result)
    } catch (error) {
      this.#options.log.warn({ row: watch.fence.row, error: messageOf(error) }, "failed to finish a wait; trying again")
      if (this.#isWatched(watch)) this.#schedule(watch, RETRY_MS)
    }
  }

  /** Returns the result of a condition that holds or is broken; null while it does not hold. */
  async #find(watch: Watch): Promise<WaitResult | null> {
    let finding: Finding
    try {
      finding = await watch.condition.check()
    } catch (error) {
      if (isTaskFault(error) || isBroken(error)) return { state: "failed", error: messageOf(error), retryable: false }
      finding = { met: false, seen: messageOf(error) }
    }
    if (finding.met) return { state: "success", output: finding.output }
    this.#note(watch, finding.seen.slice(0, MAX_SEEN))
    return null
  }

  #note(watch: Watch, seen: string): void {
    if (watch.seen === seen || !this.#isWatched(watch)) return
    watch.seen = seen
    this.#parts.submit({ ...watch.fence, kind: "progress", fraction: null, details: seen })
  }

  #timedOut({ timeoutMs, startedAt, seen }: Watch): WaitResult | null {
    if (timeoutMs === null || this.#options.clock.monotonic() - startedAt < timeoutMs) return null
    return { state: "timeout", error: waitTimedOut(timeoutMs, seen) }
  }

  async #finish(watch: Watch, result: WaitResult): Promise<void> {
    const change = await this.#parts.finish(watch.fence, result)
    if (!this.#isWatched(watch)) return
    this.drop(watch.fence.attemptId)
    if (change !== null) this.#parts.submit(change)
  }

  #scheduleNext(watch: Watch): void {
    const elapsedMs = this.#options.clock.monotonic() - watch.startedAt
    const leftMs = watch.timeoutMs === null ? Number.POSITIVE_INFINITY : watch.timeoutMs - elapsedMs
    this.#schedule(watch, Math.max(0, Math.min(untilNextCheck(watch.everyMs, elapsedMs), leftMs)))
  }

  #schedule(watch: Watch, delayMs: number): void {
    this.#timers.add(watch, delayMs, Math.min(MAX_SLACK_MS, watch.everyMs * SLACK))
  }

  // -- rows that were finished by hand ---------------------------------------------------------------------------------------------

  #pruneLater(): void {
    this.#cancelPrune ??= this.#options.clock.after(PRUNE_MS, () => void this.#prune())
  }

  async #prune(): Promise<void> {
    try {
      const known = [...this.#watches.keys()]
      const owned = known.length === 0 ? null : await this.#parts.owned()
      if (owned !== null) for (const attemptId of known) if (!owned.has(attemptId)) this.drop(attemptId)
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, "failed to read which waits are still open; trying again")
    }
    this.#cancelPrune = null
    if (this.#watches.size > 0) this.#pruneLater()
  }
}

export const waitTimedOut = (timeoutMs: number, seen: string | null | undefined): string =>
  `timed out after ${formatDuration(timeoutMs)}${seen == null ? "" : `: ${seen}`}`
