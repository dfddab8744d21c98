// Reads what the executions of one project write out of Cloud Logging, for all of them together, within the project's quota of reads. An answer
// holds lines of up to 100 executions. Lines may be found late and out of order: each read goes back a little behind the last one,
// and by time and id of its entry no line comes twice.

import type { Clock } from "../../core/model/ports.ts"
import { backoff, Bell } from "../remote/pacing.ts"
import { ApiError, isPassing } from "./api-error.ts"
import { type EntryLine, filterOf, lineOf, type LogEntry, sourceKey, sourceOf } from "./log-entries.ts"
import { type LogPage, type LogSource, PageTooLarge } from "./logging-api.ts"
import { SKEW_MS } from "./shapes.ts"

const PAGE = 1000
/** A read is at its end after so many pages with lines, and another one goes on behind them: a log may grow faster than it is read. */
const MAX_PAGES = 50
/** Names of so many executions fit into a filter, which may have 20,000 characters. */
export const BATCH = 100
/** Google lets a project read 60 times a minute; this takes up to 40 of them. */
export const PACE_MS = 1500
const FIRST_MS = 2000
/** Between two reads of one execution. */
const FOLLOW_MS = 5000
/** What has reached Logging is found within this. */
export const OVERLAP_MS = 30_000
/** While Google does not answer. */
const AWAY_MS = 60_000
/** Until a read that is not allowed is tried again. */
const REFUSED_MS = 60_000

export interface Followed {
  project: string
  region: string
  execution: string
  /** Since when it may exist, by the clock of the server. */
  since: number
  /** New lines, in the order of their time within one page. Must not reject. */
  take(lines: EntryLine[]): Promise<void>
  /** After each read, and each that failed. */
  told(): void
}

export interface Follow {
  /** When the last whole read began, by Google's clock; null: there was none. */
  readonly readAt: number | null
  /** When the newest of its lines reached Logging; null: there is none. */
  readonly receivedAt: number | null
  /** Why the last read failed; null: it did not. */
  readonly problem: ApiError | null
  /** By Google's clock, as far as it is known. */
  now(): number
  /** The next read is not later than in `ms`. */
  within(ms: number): void
  close(): void
}

interface Follower extends Followed {
  /** Only what reached Logging since then is asked for. */
  cursor: number
  /** What was had of that, with when it reached Logging. */
  seen: Map<string, number>
  at: number
  read: Read | null
  readAt: number | null
  receivedAt: number | null
  problem: ApiError | null
  /** Of the last read. */
  lines: number
}

interface Read {
  followers: Follower[]
  filter: string
  pageSize: number
  token: string
  /** When it began: by Google's clock (null: nothing was answered yet), and by ours. */
  at: number | null
  began: number
  /** Pages with lines, and the time of the last one of them. */
  pages: number
  upTo: number
}

export class ProjectReader {
  readonly #project: string
  readonly #api: LogSource
  readonly #clock: Clock
  readonly #bell: Bell
  readonly #followers = new Map<string, Follower>()
  /** Begun and not read to their ends: they take turns, page by page. */
  #reads: Read[] = []
  #running = false
  #restUntil = 0
  #failures = 0
  #pageSize = PAGE
  /** Of Google's clock before ours. */
  #ahead = 0

  constructor(project: string, api: LogSource, clock: Clock) {
    this.#project = project
    this.#api = api
    this.#clock = clock
    this.#bell = new Bell(clock)
  }

  follow(wanted: Followed): Follow {
    const follower: Follower = {
      ...wanted,
      cursor: wanted.since - SKEW_MS,
      seen: new Map(),
      at: this.#clock.now() + FIRST_MS,
      read: null,
      readAt: null,
      receivedAt: null,
      problem: null,
      lines: 0,
    }
    const key = sourceKey(wanted.region, wanted.execution)
    this.#followers.set(key, follower)
    if (this.#running) this.#bell.ring()
    else void this.#run()
    return Object.assign(follower, {
      now: () => this.#clock.now() + this.#ahead,
      within: (ms: number) => {
        follower.at = Math.min(follower.at, this.#clock.now() + ms)
        this.#bell.ring()
      },
      close: () => {
        if (this.#followers.get(key) === follower) this.#followers.delete(key)
        this.#bell.ring()
      },
    })
  }

  stop(): void {
    this.#followers.clear()
    this.#bell.ring()
  }

  async #run(): Promise<void> {
    this.#running = true
    while (this.#followers.size > 0) {
      const wait = Math.max(this.#restUntil, this.#dueAt()) - this.#clock.now()
      if (wait > 0) await this.#bell.wait(wait)
      else await this.#page(this.#next())
    }
    this.#reads = []
    this.#running = false
  }

  /** When there is something to read. */
  #dueAt(): number {
    if (this.#reads.length > 0) return 0
    let due = Number.MAX_SAFE_INTEGER
    for (const { at } of this.#followers.values()) due = Math.min(due, at)
    return due
  }

  /** Call only when something is due. */
  #next(): Read {
    const now = this.#clock.now()
    const waiting = [...this.#followers.values()].filter(({ read }) => read === null).toSorted((a, b) => a.at - b.at)
    const [first] = waiting
    if (first !== undefined && first.at <= now) this.#reads.push(this.#begin(first, waiting, now))
    return this.#reads.shift()!
  }

  #begin(first: Follower, waiting: Follower[], now: number): Read {
    // One that writes much is read by itself, so that nobody else has to wait for its pages. Those whose turn is near come along.
    const near = waiting.filter(({ at, lines }) => at <= now + FOLLOW_MS / 2 && lines < PAGE).slice(0, BATCH)
    const followers = first.lines < PAGE ? near : [first]
    const asked = followers.map(({ execution, cursor }) => ({ execution, received: cursor }))
    const from = Math.min(...followers.map(({ since }) => since)) - SKEW_MS
    const filter = filterOf(asked, from)
    const read: Read = { followers, filter, pageSize: this.#pageSize, token: "", at: null, began: now, pages: 0, upTo: 0 }
    for (const follower of followers) Object.assign(follower, { read, at: Number.MAX_SAFE_INTEGER, lines: 0 })
    return read
  }

  async #page(read: Read): Promise<void> {
    if (!read.followers.some((follower) => this.#follows(follower))) return
    const now = this.#clock.now()
    this.#restUntil = now + PACE_MS
    if (read.at === null) read.began = now
    let page: LogPage
    try {
      const { filter, pageSize, token } = read
      page = await this.#api.list({ project: this.#project, filter, pageSize, pageToken: token })
    } catch (error) {
      return this.#failed(read, error)
    }
    this.#failures = 0
    read.at ??= page.at ?? read.began - SKEW_MS
    await this.#spread(read, page.entries)
    read.token = page.next
    if (page.next === "") this.#done(read)
    else if (read.pages >= MAX_PAGES) this.#cut(read)
    else this.#reads.push(read)
  }

  async #spread(read: Read, entries: LogEntry[]): Promise<void> {
    const fresh = new Map<Follower, EntryLine[]>()
    const last = entries.at(-1)
    if (last !== undefined) Object.assign(read, { pages: read.pages + 1, upTo: lineOf(last).at })
    for (const entry of entries) {
      const follower = this.#followers.get(sourceOf(entry))
      if (follower === undefined || follower.read !== read) continue
      follower.lines += 1
      const line = lineOf(entry)
      if (follower.seen.has(line.order)) continue
      follower.seen.set(line.order, line.received)
      follower.receivedAt = Math.max(follower.receivedAt ?? 0, line.received)
      const lines = fresh.get(follower)
      if (lines === undefined) fresh.set(follower, [line])
      else lines.push(line)
    }
    for (const [follower, lines] of fresh) await follower.take(lines)
  }

  #done(read: Read): void {
    const at = read.at!
    this.#ahead = at - read.began
    this.#pageSize = Math.min(PAGE, this.#pageSize * 2)
    for (const follower of read.followers) follower.readAt = at
    this.#forward(read, at - OVERLAP_MS, FOLLOW_MS)
  }

  /** What is left was written later, and so has reached Logging later. */
  #cut(read: Read): void {
    this.#forward(read, Math.min(read.upTo, read.at! - OVERLAP_MS), 0)
  }

  /** The next read is of what reached Logging since `cursor`. */
  #forward(read: Read, cursor: number, nextMs: number): void {
    for (const follower of read.followers) {
      follower.problem = null
      follower.cursor = Math.max(follower.cursor, cursor)
      for (const [order, received] of follower.seen) if (received < follower.cursor) follower.seen.delete(order)
      this.#release(follower, nextMs)
    }
  }

  #failed(read: Read, error: unknown): void {
    if (error instanceof PageTooLarge) {
      // The size belongs to the token: from the first page again.
      this.#pageSize = Math.max(1, Math.floor(read.pageSize / 4))
      Object.assign(read, { pageSize: this.#pageSize, token: "", pages: 0 })
      this.#reads.unshift(read)
      return
    }
    const problem = error instanceof ApiError ? error : new ApiError(null, String(error))
    for (const follower of read.followers) follower.problem = problem
    if (isPassing(problem)) {
      this.#failures += 1
      this.#restUntil = Math.max(this.#restUntil, this.#clock.now() + backoff(this.#failures, AWAY_MS))
      this.#reads.unshift(read)
      for (const { told } of read.followers) told()
    } else for (const follower of read.followers) this.#release(follower, REFUSED_MS)
  }

  #release(follower: Follower, ms: number): void {
    follower.read = null
    follower.at = Math.min(follower.at, this.#clock.now() + ms)
    if (this.#follows(follower)) follower.told()
  }

  #follows(follower: Follower): boolean {
    return this.#followers.get(sourceKey(follower.region, follower.execution)) === follower
  }
}
