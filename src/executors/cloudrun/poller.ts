// One loop that looks at all executions: every 2 s at first, less often the longer an attempt lasts, up to every 15 s. Executions of one job
// are seen in its list, newest first, where that takes fewer calls than asking for each; it is also where one of unknown name is found.

import type { Clock } from "../../core/model/ports.ts"
import { backoff, Turnstile } from "../remote/pacing.ts"
import type { CloudRunApi } from "./api.ts"
import { type ApiError, errorOf, isStatus } from "./api-error.ts"
import { attemptOf, type Execution, idOf, instantOf, type JobName, SKEW_MS } from "./shapes.ts"

const FIRST_MS = 2000
const LAST_MS = 15_000
/** Of an attempt's age, the time between two looks. */
const SHARE = 8
const SOON_MS = 250
/** While the service does not answer. */
const AWAY_MS = 60_000
/** Up to so many executions of a job are asked for one by one. */
const FEW = 2
/** Cloud Run forgets executions beyond the newest 1,000 after a week. */
const MAX_PAGES = 10
const CALLS_AT_ONCE = 8

export interface Wanted {
  job: JobName
  attemptId: string
  /** null: not known, looked for by the attempt among executions that are not older than `since`. */
  id: string | null
  since: number
  /** Somebody else tells of its end; this is to notice that there is none. */
  slow?: boolean
}

export interface Watch {
  /** null: it is not there. undefined: not seen since the watch began. */
  readonly execution: Execution | null | undefined
  /** Looks that did not find it, one after the other. */
  readonly misses: number
  /** Why the last look failed; null: it did not. */
  readonly problem: { error: ApiError; since: number } | null
  /** Something has happened to it. */
  soon(): void
  close(): void
}

interface Watcher extends Wanted {
  began: number
  at: number
  execution: Execution | null | undefined
  misses: number
  problem: { error: ApiError; since: number } | null
  told: () => void
}

type Looks = Pick<CloudRunApi, "get" | "list">

export class ExecutionPoller {
  readonly #api: Looks
  readonly #clock: Clock
  readonly #jobs = new Map<JobName, Set<Watcher>>()
  readonly #looking = new Set<JobName>()
  readonly #failures = new Map<JobName, number>()
  readonly #turnstile = new Turnstile(CALLS_AT_ONCE)
  #timer: { at: number; cancel: () => void } | null = null

  constructor(api: Looks, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  /** `told` is called after each look. */
  watch(wanted: Wanted, told: () => void): Watch {
    const now = this.#clock.now()
    const first = wanted.id === null ? SOON_MS : FIRST_MS
    const watcher: Watcher = {
      ...wanted,
      began: now,
      at: now + first,
      execution: undefined,
      misses: 0,
      problem: null,
      told,
    }
    const all = this.#jobs.get(wanted.job) ?? new Set()
    this.#jobs.set(wanted.job, all.add(watcher))
    this.#plan()
    return Object.assign(watcher, { soon: () => this.#soon(watcher), close: () => this.#close(watcher) })
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#jobs.clear()
  }

  #soon(watcher: Watcher): void {
    watcher.began = this.#clock.now()
    watcher.slow = false
    watcher.at = Math.min(watcher.at, watcher.began + SOON_MS)
    this.#plan()
  }

  #close(watcher: Watcher): void {
    const all = this.#jobs.get(watcher.job)
    all?.delete(watcher)
    if (all?.size !== 0) return
    this.#jobs.delete(watcher.job)
    this.#failures.delete(watcher.job)
  }

  #plan(): void {
    let next = Number.POSITIVE_INFINITY
    for (const [job, all] of this.#jobs) {
      if (!this.#looking.has(job)) for (const { at } of all) next = Math.min(next, at)
    }
    if (next === Number.POSITIVE_INFINITY || (this.#timer !== null && this.#timer.at <= next)) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(Math.max(0, next - this.#clock.now()), () => {
      this.#timer = null
      this.#round()
    })
    this.#timer = { at: next, cancel }
  }

  #round(): void {
    const now = this.#clock.now()
    for (const [job, all] of this.#jobs) {
      if (this.#looking.has(job) || ![...all].some(({ at }) => at <= now)) continue
      this.#looking.add(job)
      // Those whose turn is near come along, so that one list serves all.
      const asking = [...all].filter((watcher) => watcher.at <= now + this.#gap(watcher, now) / 2)
      void this.#look(job, asking).finally(() => {
        this.#looking.delete(job)
        this.#plan()
      })
    }
    this.#plan()
  }

  async #look(job: JobName, asking: Watcher[]): Promise<void> {
    const open = new Set(asking)
    // A list shows others too. They are told as well: their own turn may be put off again and again.
    const shown = new Set(asking)
    try {
      if (asking.length > FEW || asking.some(({ id }) => id === null)) await this.#list(job, open, shown)
      await Promise.all([...open].map((watcher) => this.#turnstile.pass(() => this.#ask(watcher, open))))
      this.#failures.delete(job)
    } catch (error) {
      this.#failed(job, open, errorOf(error))
    }
    for (const { told } of shown) told()
  }

  async #list(job: JobName, open: Set<Watcher>, shown: Set<Watcher>): Promise<void> {
    const all = [...(this.#jobs.get(job) ?? [])]
    const byId = new Map(all.flatMap((watcher) => (watcher.id === null ? [] : [[watcher.id, watcher]])))
    const byAttempt = new Map(all.flatMap((watcher) => (watcher.id === null ? [[watcher.attemptId, watcher]] : [])))
    let token = ""
    for (let page = 0; page < MAX_PAGES; page++) {
      const { executions, next } = await this.#turnstile.pass(() => this.#api.list(job, token)).catch(noneIfGone)
      let hits = 0
      for (const execution of executions) {
        const watcher = byId.get(idOf(execution)) ?? byAttempt.get(attemptOf(execution) ?? "")
        if (watcher === undefined) continue
        hits += 1
        open.delete(watcher)
        shown.add(watcher)
        this.#seen(watcher, execution)
      }
      token = next
      if (token === "" || open.size === 0) return
      const oldest = instantOf(executions.at(-1)?.createTime) ?? 0
      const seeking = [...open].some(({ id, since }) => id === null && oldest > since - SKEW_MS)
      if (!seeking && hits < FEW) return
    }
  }

  async #ask(watcher: Watcher, open: Set<Watcher>): Promise<void> {
    const { id, job } = watcher
    const execution =
      id === null
        ? null
        : await this.#api.get(`${job}/executions/${id}`).catch((error: unknown) => {
            if (isStatus(error, 404)) return null
            throw error
          })
    open.delete(watcher)
    this.#seen(watcher, execution)
  }

  #seen(watcher: Watcher, execution: Execution | null): void {
    const now = this.#clock.now()
    watcher.execution = execution
    watcher.misses = execution === null ? watcher.misses + 1 : 0
    watcher.problem = null
    watcher.at = now + this.#gap(watcher, now)
  }

  #failed(job: JobName, open: Set<Watcher>, error: ApiError): void {
    const failures = (this.#failures.get(job) ?? 0) + 1
    this.#failures.set(job, failures)
    const now = this.#clock.now()
    const pause = Math.max(FIRST_MS, backoff(failures, AWAY_MS))
    for (const watcher of open) {
      watcher.problem = { error, since: watcher.problem?.since ?? now }
      watcher.at = now + pause
    }
  }

  #gap({ began, slow }: Watcher, now: number): number {
    return slow === true ? LAST_MS : Math.min(LAST_MS, Math.max(FIRST_MS, (now - began) / SHARE))
  }
}

/** A job that was deleted has no list. */
const noneIfGone = (error: unknown): { executions: Execution[]; next: string } => {
  if (isStatus(error, 404)) return { executions: [], next: "" }
  throw error
}
