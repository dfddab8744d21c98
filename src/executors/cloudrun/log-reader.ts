// Reads the logs of executions from Cloud Logging. Google's quota of reads is per project, so all executions of a project share
// one loop, and one read covers up to 100 executions. Entries may become visible late and out of order: each read overlaps the
// previous one, and entries are deduplicated by time and id.

import type { Clock } from "../../core/model/ports.ts"
import { WakeSignal } from "../remote/wake-signal.ts"
import { backoff } from "../remote/retry.ts"
import { GoogleApiError, isTransient } from "./api-error.ts"
import { type EntryLine, filterOf, lineOf, type LogEntry, sourceKey, sourceOf } from "./log-entries.ts"
import { ResponseTooLarge } from "./google-api.ts"
import type { LogPage, LoggingApi } from "./logging-api.ts"
import { SKEW_MS } from "./shapes.ts"

const PAGE = 1000
/** Pages after which a read ends and another one continues behind it: a log may grow faster than it is read. */
const MAX_PAGES = 50
/** Executions whose names fit into one filter, which may have 20,000 characters. */
export const BATCH = 100
/** Interval between reads: 40 of the 60 that Google allows per minute. */
export const PACE_MS = 1500
/** Time until the first read of an execution. */
const FIRST_READ_MS = 2000
/** Interval between reads of one execution. */
const READ_INTERVAL_MS = 5000
/** Time within which a received entry becomes visible. */
export const OVERLAP_MS = 30_000
/** Longest pause while the service fails. */
const MAX_PAUSE_MS = 60_000
/** Time until a rejected read is retried. */
const REJECTED_MS = 60_000

export interface LogTarget {
  project: string
  region: string
  execution: string
  /** Time since when the execution may exist, by the clock of the server. */
  since: number
  /** Receives new lines, ordered by time within one page. Must not reject. */
  onLines(lines: EntryLine[]): Promise<void>
  /** Called after each read, successful or not. */
  onRead(): void
}

export interface LogFollow {
  /** Start of the last complete read, by Google's clock; null when there was none. */
  readonly readAt: number | null
  /** Time at which Cloud Logging received the newest line; null when there is none. */
  readonly receivedAt: number | null
  /** Error of the last read; null when it succeeded. */
  readonly problem: GoogleApiError | null
  /** Returns the time by Google's clock, as far as it is known. */
  now(): number
  /** Makes the next read start within `ms`. */
  readWithin(ms: number): void
  close(): void
}

interface Follower extends LogTarget {
  /** Reads request entries that were received since then. */
  cursor: number
  /** Entries since the cursor that were delivered, with the time of their receipt. */
  delivered: Map<string, number>
  /** Time of the next read. */
  dueAt: number
  read: Read | null
  readAt: number | null
  receivedAt: number | null
  problem: GoogleApiError | null
  /** Entries in the last read. */
  lines: number
}

interface Read {
  followers: Follower[]
  filter: string
  pageSize: number
  token: string
  /** Start of the read by Google's clock; null before the first response. */
  at: number | null
  /** Start of the read by the clock of the server. */
  began: number
  /** Pages with entries so far. */
  pages: number
  /** Time of the last entry. */
  upTo: number
}

export class LogReader {
  readonly #api: LoggingApi
  readonly #clock: Clock
  readonly #projects = new Map<string, ProjectReader>()

  constructor(api: LoggingApi, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  follow(target: LogTarget): LogFollow {
    const { project } = target
    const reader = this.#projects.get(project) ?? new ProjectReader(project, this.#api, this.#clock)
    this.#projects.set(project, reader)
    return reader.follow(target)
  }

  stop(): void {
    for (const reader of this.#projects.values()) reader.stop()
    this.#api.close()
  }
}

class ProjectReader {
  readonly #project: string
  readonly #api: LoggingApi
  readonly #clock: Clock
  readonly #changes: WakeSignal
  readonly #followers = new Map<string, Follower>()
  /** Reads in progress, which alternate page by page. */
  #reads: Read[] = []
  #running = false
  /** Earliest time of the next request. */
  #nextRequestAt = 0
  #failures = 0
  #pageSize = PAGE
  /** Difference between Google's clock and that of the server. */
  #clockOffset = 0

  constructor(project: string, api: LoggingApi, clock: Clock) {
    this.#project = project
    this.#api = api
    this.#clock = clock
    this.#changes = new WakeSignal(clock)
  }

  follow(target: LogTarget): LogFollow {
    const follower: Follower = {
      ...target,
      cursor: target.since - SKEW_MS,
      delivered: new Map(),
      dueAt: this.#clock.monotonic() + FIRST_READ_MS,
      read: null,
      readAt: null,
      receivedAt: null,
      problem: null,
      lines: 0,
    }
    const key = sourceKey(target.region, target.execution)
    this.#followers.set(key, follower)
    if (this.#running) this.#changes.wake()
    else void this.#run()
    return Object.assign(follower, {
      now: () => this.#clock.now() + this.#clockOffset,
      readWithin: (ms: number) => {
        follower.dueAt = Math.min(follower.dueAt, this.#clock.monotonic() + ms)
        this.#changes.wake()
      },
      close: () => {
        if (this.#followers.get(key) === follower) this.#followers.delete(key)
        this.#changes.wake()
      },
    })
  }

  stop(): void {
    this.#followers.clear()
    this.#changes.wake()
  }

  async #run(): Promise<void> {
    this.#running = true
    while (this.#followers.size > 0) {
      const wait = Math.max(this.#nextRequestAt, this.#dueAt()) - this.#clock.monotonic()
      if (wait > 0) await this.#changes.wait(wait)
      else await this.#readPage(this.#next())
    }
    this.#reads = []
    this.#running = false
  }

  #dueAt(): number {
    if (this.#reads.length > 0) return 0
    let due = Number.MAX_SAFE_INTEGER
    for (const { dueAt } of this.#followers.values()) due = Math.min(due, dueAt)
    return due
  }

  /** Returns the read whose page comes next. Must be called only when something is due. */
  #next(): Read {
    const now = this.#clock.monotonic()
    const idle = [...this.#followers.values()].filter(({ read }) => read === null).toSorted((a, b) => a.dueAt - b.dueAt)
    const [first] = idle
    if (first !== undefined && first.dueAt <= now) this.#reads.push(this.#begin(first, idle, now))
    return this.#reads.shift()!
  }

  #begin(first: Follower, idle: Follower[], now: number): Read {
    // An execution that writes much is read by itself, so that no other waits for its pages. Executions that are due soon are
    // included.
    const soon = idle.filter(({ dueAt, lines }) => dueAt <= now + READ_INTERVAL_MS / 2 && lines < PAGE).slice(0, BATCH)
    const followers = first.lines < PAGE ? soon : [first]
    const cursors = followers.map(({ execution, cursor }) => ({ execution, receivedSince: cursor }))
    const from = Math.min(...followers.map(({ since }) => since)) - SKEW_MS
    const filter = filterOf(cursors, from)
    const read: Read = {
      followers,
      filter,
      pageSize: this.#pageSize,
      token: "",
      at: null,
      began: this.#clock.now(),
      pages: 0,
      upTo: 0,
    }
    for (const follower of followers) Object.assign(follower, { read, dueAt: Number.MAX_SAFE_INTEGER, lines: 0 })
    return read
  }

  async #readPage(read: Read): Promise<void> {
    if (!read.followers.some((follower) => this.#isOpen(follower))) return
    this.#nextRequestAt = this.#clock.monotonic() + PACE_MS
    if (read.at === null) read.began = this.#clock.now()
    let page: LogPage
    try {
      const { filter, pageSize, token } = read
      page = await this.#api.list({ project: this.#project, filter, pageSize, pageToken: token })
    } catch (error) {
      return this.#failed(read, error)
    }
    this.#failures = 0
    read.at ??= page.at ?? read.began - SKEW_MS
    await this.#deliver(read, page.entries)
    read.token = page.next
    if (page.next === "") this.#complete(read)
    else if (read.pages >= MAX_PAGES) this.#truncate(read)
    else this.#reads.push(read)
  }

  /** Delivers new lines to each execution. */
  async #deliver(read: Read, entries: LogEntry[]): Promise<void> {
    const fresh = new Map<Follower, EntryLine[]>()
    const last = entries.at(-1)
    if (last !== undefined) Object.assign(read, { pages: read.pages + 1, upTo: lineOf(last).at })
    for (const entry of entries) {
      const follower = this.#followers.get(sourceOf(entry))
      if (follower === undefined || follower.read !== read) continue
      follower.lines += 1
      const line = lineOf(entry)
      if (follower.delivered.has(line.order)) continue
      follower.delivered.set(line.order, line.received)
      follower.receivedAt = Math.max(follower.receivedAt ?? 0, line.received)
      const lines = fresh.get(follower)
      if (lines === undefined) fresh.set(follower, [line])
      else lines.push(line)
    }
    for (const [follower, lines] of fresh) await follower.onLines(lines)
  }

  #complete(read: Read): void {
    const at = read.at!
    this.#clockOffset = at - read.began
    this.#pageSize = Math.min(PAGE, this.#pageSize * 2)
    for (const follower of read.followers) follower.readAt = at
    this.#advance(read, at - OVERLAP_MS, READ_INTERVAL_MS)
  }

  /** Ends a read before its last page. The entries that are left were written later, and so were received later. */
  #truncate(read: Read): void {
    this.#advance(read, Math.min(read.upTo, read.at! - OVERLAP_MS), 0)
  }

  /** Ends a read. The next one requests what was received since `cursor`. */
  #advance(read: Read, cursor: number, nextMs: number): void {
    for (const follower of read.followers) {
      follower.problem = null
      follower.cursor = Math.max(follower.cursor, cursor)
      for (const [order, received] of follower.delivered) if (received < follower.cursor) follower.delivered.delete(order)
      this.#endRead(follower, nextMs)
    }
  }

  #failed(read: Read, error: unknown): void {
    if (error instanceof ResponseTooLarge) {
      // A token is only valid for its page size: the read starts again.
      this.#pageSize = Math.max(1, Math.floor(read.pageSize / 4))
      Object.assign(read, { pageSize: this.#pageSize, token: "", pages: 0 })
      this.#reads.unshift(read)
      return
    }
    const problem = error instanceof GoogleApiError ? error : new GoogleApiError(null, String(error))
    for (const follower of read.followers) follower.problem = problem
    if (isTransient(problem)) {
      this.#failures += 1
      this.#nextRequestAt = Math.max(this.#nextRequestAt, this.#clock.monotonic() + backoff(this.#failures, MAX_PAUSE_MS))
      this.#reads.unshift(read)
      for (const { onRead } of read.followers) onRead()
    } else for (const follower of read.followers) this.#endRead(follower, REJECTED_MS)
  }

  #endRead(follower: Follower, nextMs: number): void {
    follower.read = null
    follower.dueAt = Math.min(follower.dueAt, this.#clock.monotonic() + nextMs)
    if (this.#isOpen(follower)) follower.onRead()
  }

  #isOpen(follower: Follower): boolean {
    return this.#followers.get(sourceKey(follower.region, follower.execution)) === follower
  }
}
