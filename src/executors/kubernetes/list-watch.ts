// Follows all objects of one kind in one namespace that Ork created, for all attempts: a list, then a watch that is resumed
// from the last version when it ends or breaks, and starts with a new list when the server no longer knows that version (410
// Gone).

import type { Readable } from "node:stream"
import type { Clock } from "../../core/model/ports.ts"
import { backoff, delay } from "../remote/retry.ts"
import { KubernetesApiError, describeError, isStatus, isTransient, DenialWindow, Unreachable } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { SELECTOR, type Watched } from "./shapes.ts"

/** Seconds after which the server ends a watch, which is then resumed. */
const WATCH_S = 120
/** Silence after which a connection counts as dead: the server should have ended the watch before. */
const SILENT_MS = (WATCH_S + 30) * 1000
/** Minimum duration of a watch: one that the server ends at once must not cause a busy loop. */
const MIN_WATCH_MS = 250
const PAGE_SIZE = 500
const MAX_PAUSE_MS = 30_000
/** Failures in a row after which a watch starts with a new list. */
const MAX_FAILURES = 5
const GONE = 410

export interface WatchListener<T> {
  updated(object: T): void
  deleted(object: T): void
  /** Receives all objects that exist at this version; any other is gone. */
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
  listener: WatchListener<T>
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
  /** Resource version to resume from; null when a list is due. */
  #version: string | null = null
  #ready = Promise.withResolvers<void>()
  #isReady = false
  #failures = 0
  readonly #denials: DenialWindow
  /** Error of the last list or watch; null when it succeeded. */
  problem: string | null = null

  constructor(options: ListWatchOptions<T>) {
    this.#options = options
    this.#denials = new DenialWindow(options.clock)
    this.#ready.promise.catch(() => {})
    void this.#run()
  }

  /** Resolves when the first list has arrived, however long the cluster cannot be reached; rejects when it is denied. */
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
        const began = clock.monotonic()
        await this.#watch(this.#version ?? "")
        if (clock.monotonic() - began < MIN_WATCH_MS) await delay(clock, MIN_WATCH_MS, this.#stopped.signal)
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
      // A connection that broke once is resumed silently.
      if (this.#failures === 1) log.warn({ path, error: describeError(error) }, "failed to watch the cluster; trying again")
      this.#failures += 1
      // A cluster that was recreated or restored from a backup may not know the version.
      if (!isTransient(error) || this.#failures % MAX_FAILURES === 0) this.#version = null
    }
    this.problem = describeError(error)
    if (!this.#denials.allows(error) && !this.#isReady) this.#rejectWaiters(error)
    const retryAfterMs = error instanceof KubernetesApiError ? (error.retryAfterMs ?? 0) : 0
    const pause = Math.max(Math.min(retryAfterMs, MAX_PAUSE_MS), backoff(this.#failures - 1, MAX_PAUSE_MS))
    await delay(clock, pause, this.#stopped.signal)
  }

  #rejectWaiters(error: unknown): void {
    const { reject } = this.#ready
    this.#ready = Promise.withResolvers()
    this.#ready.promise.catch(() => {})
    reject(error)
  }

  #succeeded(): void {
    const { log, path } = this.#options
    if (this.#failures > 1) log.info({ path }, "watching the cluster again")
    this.#failures = 0
    this.problem = null
    this.#denials.reset()
  }

  async #list(): Promise<void> {
    const { cluster, path, listener } = this.#options
    const uids = new Set<string>()
    const version = await listAll<T>(cluster, path, this.#stopped.signal, (object) => {
      uids.add(object.metadata.uid)
      listener.updated(object)
    })
    listener.listed(uids, version)
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
        this.#apply(parse<T>(line))
      }
    } finally {
      cancel()
    }
  }

  #apply({ type, object }: Event<T>): void {
    const { listener } = this.#options
    if (type === "ERROR") {
      throw new KubernetesApiError(object.code ?? 500, object.reason ?? "", object.message ?? "the server ended the watch")
    }
    if (type === "DELETED") listener.deleted(object)
    else if (type !== "BOOKMARK") listener.updated(object)
    this.#version = object.metadata.resourceVersion
  }
}

/** Lists all objects of Ork at a path, in pages. Returns the resource version of the list. */
export const listAll = async <T extends Watched>(
  cluster: Cluster,
  path: string,
  signal: AbortSignal,
  onObject: (object: T) => void,
): Promise<string> => {
  let next: string | undefined
  let version = ""
  do {
    const query = { labelSelector: SELECTOR, limit: String(PAGE_SIZE), ...(next !== undefined && { continue: next }) }
    const list = await cluster.call<List<T>>("GET", path, { query, signal })
    version = list.metadata.resourceVersion
    next = list.metadata.continue || undefined
    for (const object of list.items) onObject(object)
  } while (next !== undefined)
  return version
}

const parse = <T>(line: string): Event<T> => {
  try {
    return JSON.parse(line) as Event<T>
  } catch {
    throw new Unreachable(new Error("an event of the watch is not valid JSON"))
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
