// Follows all objects of one kind in one namespace that Ork made: a list, then a watch from there, which is resumed from the last version seen
// when it ends or breaks, and begun anew when the server no longer knows that version (410 Gone). One for all attempts.

import type { Readable } from "node:stream"
import type { Clock } from "../../core/model/ports.ts"
import { ApiError, inWords, isPassing, isStatus, Unreachable } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { backoff, delay } from "./persist.ts"
import { SELECTOR, type Watched } from "./shapes.ts"

/** The server ends a watch after this; it is then resumed. */
const WATCH_S = 120
/** A connection that is dead without a word is given up this long after the server should have ended it. */
const SILENT_MS = (WATCH_S + 30) * 1000
const SHORT_MS = 250
const PAGE = 500
const MAX_PAUSE_MS = 30_000
/** Failures in a row after which those who wait for the first list are told, and a watch is begun anew. */
const PATIENCE = 5
const GONE = 410

export interface Followed<T> {
  seen(object: T): void
  gone(object: T): void
  /** All there are at this version: what is missing is gone. */
  listed(uids: ReadonlySet<string>, version: string): void
}

export interface WatchLog {
  warn(fields: object, message: string): void
  info(fields: object, message: string): void
}

export interface ListWatchOptions<T> {
  cluster: Cluster
  clock: Clock
  log: WatchLog
  path: string
  followed: Followed<T>
}

interface Event<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR"
  object: T & { code?: number; reason?: string; message?: string }
}

interface List<T> {
  metadata: { resourceVersion: string; continue?: string }
  items: T[]
}

export class ListWatch<T extends Watched> {
  readonly #options: ListWatchOptions<T>
  readonly #stopped = new AbortController()
  /** null: a list is due. */
  #version: string | null = null
  #ready = Promise.withResolvers<void>()
  #isReady = false
  #failures = 0

  constructor(options: ListWatchOptions<T>) {
    this.#options = options
    this.#ready.promise.catch(() => {})
    void this.#run()
  }

  /** Resolves when the first list was had; rejects when it cannot be had for now. */
  ready(): Promise<void> {
    return this.#ready.promise
  }

  stop(): void {
    this.#stopped.abort()
    this.#ready.reject(new Error("the executor was stopped"))
  }

  get #over(): boolean {
    return this.#stopped.signal.aborted
  }

  async #run(): Promise<void> {
    const { clock } = this.#options
    while (!this.#over) {
      try {
        if (this.#version === null) await this.#list()
        const began = clock.now()
        await this.#watch(this.#version ?? "")
        // One that the server ends at once must not become a busy loop.
        if (clock.now() - began < SHORT_MS) await delay(clock, SHORT_MS, this.#stopped.signal)
      } catch (error) {
        if (this.#over) return
        await this.#failed(error)
      }
    }
  }

  async #failed(error: unknown): Promise<void> {
    const { clock, log, path } = this.#options
    if (isStatus(error, GONE)) {
      this.#version = null
      if (this.#failures++ === 0) return
    } else {
      // A connection that broke once is resumed without a word.
      if (this.#failures === 1) log.warn({ path, error: inWords(error) }, "cannot follow what the cluster does; trying again")
      this.#failures += 1
      // A cluster that was set up anew, or restored from a backup, may not know what it once said.
      if (!isPassing(error) || this.#failures % PATIENCE === 0) this.#version = null
    }
    if (!this.#isReady && (!isPassing(error) || this.#failures >= PATIENCE)) {
      const { reject } = this.#ready
      this.#ready = Promise.withResolvers()
      this.#ready.promise.catch(() => {})
      reject(error)
    }
    const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
    await delay(clock, Math.max(Math.min(asked, MAX_PAUSE_MS), backoff(this.#failures - 1, MAX_PAUSE_MS)), this.#stopped.signal)
  }

  #succeeded(): void {
    const { log, path } = this.#options
    if (this.#failures > 1) log.info({ path }, "following the cluster again")
    this.#failures = 0
  }

  async #list(): Promise<void> {
    const { cluster, path, followed } = this.#options
    const uids = new Set<string>()
    let next: string | undefined
    let version = ""
    do {
      const query = { labelSelector: SELECTOR, limit: String(PAGE), ...(next !== undefined && { continue: next }) }
      const list = await cluster.call<List<T>>("GET", path, { query, signal: this.#stopped.signal })
      version = list.metadata.resourceVersion
      next = list.metadata.continue || undefined
      for (const object of list.items) {
        uids.add(object.metadata.uid)
        followed.seen(object)
      }
    } while (next !== undefined)
    followed.listed(uids, version)
    this.#version = version
    this.#isReady = true
    this.#ready.resolve()
  }

  async #watch(version: string): Promise<void> {
    const { cluster, clock, path } = this.#options
    const silent = new AbortController()
    const signal = AbortSignal.any([this.#stopped.signal, silent.signal])
    let cancel = clock.after(SILENT_MS, () => silent.abort())
    try {
      const stream = await cluster.stream(path, {
        query: {
          watch: "true",
          labelSelector: SELECTOR,
          resourceVersion: version,
          allowWatchBookmarks: "true",
          timeoutSeconds: String(WATCH_S),
        },
        signal,
      })
      this.#succeeded()
      for await (const line of linesOf(stream)) {
        cancel()
        cancel = clock.after(SILENT_MS, () => silent.abort())
        this.#take(parse<T>(line))
      }
    } finally {
      cancel()
    }
  }

  #take({ type, object }: Event<T>): void {
    const { followed } = this.#options
    if (type === "ERROR") {
      throw new ApiError(object.code ?? 500, object.reason ?? "", object.message ?? "the watch was ended by the server")
    }
    if (type === "DELETED") followed.gone(object)
    else if (type !== "BOOKMARK") followed.seen(object)
    this.#version = object.metadata.resourceVersion
  }
}

const parse = <T>(line: string): Event<T> => {
  try {
    return JSON.parse(line) as Event<T>
  } catch {
    throw new Unreachable(new Error("an event of the watch came broken"))
  }
}

async function* linesOf(stream: Readable): AsyncGenerator<string> {
  let rest: Buffer[] = []
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let from = 0
      for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
        rest.push(chunk.subarray(from, at))
        const line = Buffer.concat(rest).toString()
        rest = []
        from = at + 1
        if (line.trim() !== "") yield line
      }
      if (from < chunk.length) rest.push(chunk.subarray(from))
    }
  } catch (error) {
    throw new Unreachable(error)
  }
}
