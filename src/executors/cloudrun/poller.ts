// Polls all executions in one loop: every 2 s at first, less often the longer an attempt lasts, at least every 15 s. Executions
// of one job are read from its list, newest first, where that takes fewer calls than reading each; executions of unknown name
// are found there too.

import type { Clock } from "../../core/model/ports.ts"
import { backoff } from "../remote/retry.ts"
import { Semaphore } from "../remote/semaphore.ts"
import { type CloudRunApi, MAX_PAGES } from "./api.ts"
import { type GoogleApiError, errorOf, isStatus } from "./api-error.ts"
import { attemptOf, type Execution, idOf, instantOf, type JobName, SKEW_MS } from "./shapes.ts"

const MIN_INTERVAL_MS = 2000
const MAX_INTERVAL_MS = 15_000
/** The interval is the attempt's age divided by this. */
const AGE_DIVISOR = 8
const SOON_MS = 250
/** Longest pause while the service fails. */
const MAX_PAUSE_MS = 60_000
/** Up to this number, executions of a job are read one by one. */
const MAX_SINGLE_READS = 2
const MAX_CONCURRENT_CALLS = 8

export interface WatchTarget {
  job: JobName
  attemptId: string
  /** null when unknown: the execution is found by the attempt id among those that are not older than `since`. */
  id: string | null
  since: number
  /** True when `ork exec` reports the end, and polls only notice an execution that ends without. */
  slow?: boolean
}

export interface ExecutionWatch {
  /** The execution as of the last poll; null when it does not exist, undefined before the first poll. */
  readonly execution: Execution | null | undefined
  /** Successive polls that did not find the execution. */
  readonly misses: number
  /** Error of the last poll, and time since when polls fail; null when it succeeded. */
  readonly problem: { error: GoogleApiError; since: number } | null
  /** Polls soon, and often from now on: something has happened. */
  pollSoon(): void
  close(): void
}

interface Watcher extends WatchTarget {
  /** Start of the age that determines the interval. */
  watchedSince: number
  /** Time of the next poll. */
  dueAt: number
  execution: Execution | null | undefined
  misses: number
  problem: { error: GoogleApiError; since: number } | null
  onPoll: () => void
}

type PolledApi = Pick<CloudRunApi, "get" | "list">

export class ExecutionPoller {
  readonly #api: PolledApi
  readonly #clock: Clock
  readonly #jobs = new Map<JobName, Set<Watcher>>()
  readonly #polling = new Set<JobName>()
  readonly #failures = new Map<JobName, number>()
  readonly #semaphore = new Semaphore(MAX_CONCURRENT_CALLS)
  #timer: { at: number; cancel: () => void } | null = null

  constructor(api: PolledApi, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  /** Watches an execution. Calls `onPoll` after each poll, successful or not. */
  watch(target: WatchTarget, onPoll: () => void): ExecutionWatch {
    const now = this.#clock.monotonic()
    const watcher: Watcher = {
      ...target,
      watchedSince: now,
      dueAt: now + (target.id === null ? SOON_MS : MIN_INTERVAL_MS),
      execution: undefined,
      misses: 0,
      problem: null,
      onPoll,
    }
    const all = this.#jobs.get(target.job) ?? new Set()
    this.#jobs.set(target.job, all.add(watcher))
    this.#schedule()
    return Object.assign(watcher, { pollSoon: () => this.#pollSoon(watcher), close: () => this.#close(watcher) })
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#jobs.clear()
  }

  #pollSoon(watcher: Watcher): void {
    watcher.watchedSince = this.#clock.monotonic()
    watcher.slow = false
    watcher.dueAt = Math.min(watcher.dueAt, watcher.watchedSince + SOON_MS)
    this.#schedule()
  }

  #close(watcher: Watcher): void {
    const all = this.#jobs.get(watcher.job)
    all?.delete(watcher)
    if (all?.size !== 0) return
    this.#jobs.delete(watcher.job)
    this.#failures.delete(watcher.job)
  }

  #schedule(): void {
    let next = Number.POSITIVE_INFINITY
    for (const [job, all] of this.#jobs) {
      if (!this.#polling.has(job)) for (const { dueAt } of all) next = Math.min(next, dueAt)
    }
    if (next === Number.POSITIVE_INFINITY || (this.#timer !== null && this.#timer.at <= next)) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(Math.max(0, next - this.#clock.monotonic()), () => {
      this.#timer = null
      this.#pollDue()
    })
    this.#timer = { at: next, cancel }
  }

  #pollDue(): void {
    const now = this.#clock.monotonic()
    for (const [job, all] of this.#jobs) {
      if (this.#polling.has(job) || ![...all].some(({ dueAt }) => dueAt <= now)) continue
      this.#polling.add(job)
      // Includes executions that are due soon, so that one list serves all.
      const due = [...all].filter((watcher) => watcher.dueAt <= now + this.#interval(watcher, now) / 2)
      void this.#poll(job, due).finally(() => {
        this.#polling.delete(job)
        this.#schedule()
      })
    }
    this.#schedule()
  }

  async #poll(job: JobName, due: Watcher[]): Promise<void> {
    const open = new Set(due)
    // Executions that were not due but are in the list are notified too: lists for others may postpone their own poll for ever.
    const notified = new Set(due)
    try {
      if (due.length > MAX_SINGLE_READS || due.some(({ id }) => id === null)) await this.#list(job, open, notified)
      await Promise.all([...open].map((watcher) => this.#semaphore.run(() => this.#read(watcher, open))))
      this.#failures.delete(job)
    } catch (error) {
      this.#failed(job, open, errorOf(error))
    }
    for (const { onPoll } of notified) onPoll()
  }

  /**
   * Reads pages of the list while they contain executions of interest. Moves the watchers that it finds from `open` to
   * `notified`.
   */
  async #list(job: JobName, open: Set<Watcher>, notified: Set<Watcher>): Promise<void> {
    const all = [...(this.#jobs.get(job) ?? [])]
    const byId = new Map(all.flatMap((watcher) => (watcher.id === null ? [] : [[watcher.id, watcher]])))
    const byAttempt = new Map(all.flatMap((watcher) => (watcher.id === null ? [[watcher.attemptId, watcher]] : [])))
    let token = ""
    for (let page = 0; page < MAX_PAGES; page++) {
      const { executions, next } = await this.#semaphore.run(() => this.#api.list(job, token)).catch(emptyIfDeleted)
      let hits = 0
      for (const execution of executions) {
        const watcher = byId.get(idOf(execution)) ?? byAttempt.get(attemptOf(execution) ?? "")
        if (watcher === undefined) continue
        hits += 1
        open.delete(watcher)
        notified.add(watcher)
        this.#update(watcher, execution)
      }
      token = next
      if (token === "" || open.size === 0) return
      const oldest = instantOf(executions.at(-1)?.createTime) ?? 0
      const searching = [...open].some(({ id, since }) => id === null && oldest > since - SKEW_MS)
      if (!searching && hits < MAX_SINGLE_READS) return
    }
  }

  async #read(watcher: Watcher, open: Set<Watcher>): Promise<void> {
    const { id, job } = watcher
    const execution =
      id === null
        ? null
        : await this.#api.get(`${job}/executions/${id}`).catch((error: unknown) => {
            if (isStatus(error, 404)) return null
            throw error
          })
    open.delete(watcher)
    this.#update(watcher, execution)
  }

  #update(watcher: Watcher, execution: Execution | null): void {
    const now = this.#clock.monotonic()
    watcher.execution = execution
    watcher.misses = execution === null ? watcher.misses + 1 : 0
    watcher.problem = null
    watcher.dueAt = now + this.#interval(watcher, now)
  }

  #failed(job: JobName, open: Set<Watcher>, error: GoogleApiError): void {
    const failures = (this.#failures.get(job) ?? 0) + 1
    this.#failures.set(job, failures)
    const now = this.#clock.monotonic()
    const pause = Math.max(MIN_INTERVAL_MS, backoff(failures, MAX_PAUSE_MS))
    for (const watcher of open) {
      watcher.problem = { error, since: watcher.problem?.since ?? now }
      watcher.dueAt = now + pause
    }
  }

  #interval({ watchedSince, slow }: Watcher, now: number): number {
    if (slow === true) return MAX_INTERVAL_MS
    return Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, (now - watchedSince) / AGE_DIVISOR))
  }
}

/** Returns an empty page for a job that was deleted. */
const emptyIfDeleted = (error: unknown): { executions: Execution[]; next: string } => {
  if (isStatus(error, 404)) return { executions: [], next: "" }
  throw error
}
