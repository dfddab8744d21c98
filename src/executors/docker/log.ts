// Copies a container's log to the attempt's log, over broken connections, without losing or repeating a byte.

import { setTimeout as delay } from "node:timers/promises"
import type { Clock } from "../../core/model/ports.ts"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"
import { type DockerEngine, EngineError } from "./engine.ts"
import { DockerFrameReader, type Piece, ByteDeduplicator } from "./frames.ts"
import { isOutage, Pauses } from "./outage.ts"

/** Time between the end of the attached stream and the engine's report that the container has ended. */
const END_MS = 200
/** Lines and bytes at the end of a log that are compared to find out whether the log is complete. */
const TAIL_LINES = 100
const TAIL_BYTES = 64 << 10
const LOG_STREAMS = ["stdout", "stderr"] as const satisfies LogStream[]
/** Errors of the engine in a row after which the log is given up. */
const MAX_ERRORS = 20

/** The end of a container. `broken`: the connection that reported it was broken at least once. */
export interface ContainerEnd {
  broken: boolean
}

export interface FollowOptions {
  /** The connection that was opened before the start. */
  attached: AsyncIterable<Buffer>
  sink: LogSink
  ended: Promise<ContainerEnd>
  /** Aborts when the attempt is over. */
  signal: AbortSignal
}

export class LogFollower {
  readonly #engine: DockerEngine
  readonly #clock: Clock
  readonly #id: string
  readonly #deduplicator = new ByteDeduplicator()
  readonly #tails = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
  /** Counts what arrives, and connections that fail. */
  activity = 0

  constructor(engine: DockerEngine, clock: Clock, id: string) {
    this.#engine = engine
    this.#clock = clock
    this.#id = id
  }

  /**
   * Copies the log. When the attached connection breaks, or ends too early, the rest is read from the log that the engine keeps:
   * followed while the container runs, and read once more after its end, because engines sometimes drop the last lines of a followed
   * log. Waits while the engine is away. Rejects when the log cannot be read.
   */
  async follow({ attached, sink, ended, signal }: FollowOptions): Promise<void> {
    const isWhole = await this.#copy(attached, sink)
    if (isWhole && (await settlesWithin(END_MS, ended)) && !(await ended).broken && (await this.#endsAsStored(signal))) return
    const pauses = new Pauses(this.#clock, signal)
    for (let errors = 0, last = await settlesWithin(0, ended); ;) {
      this.#deduplicator.restart()
      const before = this.activity
      try {
        const isComplete = await this.#copy(await this.#storedLog(!last, signal), sink)
        if (last && isComplete) return
        errors = 0
      } catch (error) {
        if (!isOutage(error) && (!(error instanceof EngineError) || ++errors >= MAX_ERRORS)) throw error
      }
      if (signal.aborted) throw new Error("the connection to the engine breaks whenever the log is read")
      if (this.activity > before) pauses.reset()
      this.activity += 1
      await Promise.race([pauses.pause(), ended])
      last = await settlesWithin(0, ended)
    }
  }

  #storedLog(follow: boolean, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    return this.#readLog({ follow: String(follow) }, signal)
  }

  #readLog(query: { [name: string]: string }, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const path = `/containers/${this.#id}/logs`
    return this.#engine.stream("GET", path, { query: { ...query, stdout: "true", stderr: "true" }, timeoutMs: null, signal })
  }

  /** Compares the last lines with those that the engine keeps. Reading the whole log again would take as long as the first time. */
  async #endsAsStored(signal: AbortSignal): Promise<boolean> {
    const stored = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
    try {
      const frames = new DockerFrameReader()
      for await (const chunk of await this.#readLog({ follow: "false", tail: String(TAIL_LINES) }, signal)) {
        for (const { stream, bytes } of frames.read(chunk)) stored[stream] = lastBytes(stored[stream], bytes)
      }
    } catch {
      return false
    }
    return LOG_STREAMS.every((stream) => endsWith(this.#tails[stream], stored[stream]))
  }

  /** Returns false when the connection broke. */
  async #copy(response: AsyncIterable<Buffer>, sink: LogSink): Promise<boolean> {
    const frames = new DockerFrameReader()
    const chunks = response[Symbol.asyncIterator]()
    for (;;) {
      // Only errors of the connection are caught here: a log that cannot be stored is not retried.
      const next = await chunks.next().catch(() => null)
      if (next === null) return false
      if (next.done === true) return true
      this.activity += 1
      for (const { stream, bytes } of joinPieces(frames.read(next.value), this.#deduplicator)) {
        this.#tails[stream] = lastBytes(this.#tails[stream], bytes)
        await sink.write(stream, bytes)
      }
    }
  }
}

const lastBytes = (tail: Buffer, more: Buffer): Buffer<ArrayBuffer> =>
  Buffer.concat([tail, more.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES)

/** Returns whether `all` ends with `end`; both hold at most the last `TAIL_BYTES`. */
const endsWith = (all: Buffer, end: Buffer): boolean =>
  end.length <= all.length && all.subarray(all.length - end.length).equals(end)

/** Joins successive pieces of one stream, because the engine sends a frame for each line. */
const joinPieces = (pieces: Piece[], deduplicator: ByteDeduplicator): Piece[] => {
  const runs: { stream: LogStream; parts: Buffer[] }[] = []
  for (const piece of pieces) {
    const bytes = deduplicator.newBytes(piece)
    if (bytes.length === 0) continue
    const run = runs.at(-1)
    if (run?.stream === piece.stream) run.parts.push(bytes)
    else runs.push({ stream: piece.stream, parts: [bytes] })
  }
  return runs.map(({ stream, parts }) => ({ stream, bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts) }))
}

/**
 * Resolves with true when the promise is fulfilled within `ms`, with false after that. Rejects when the promise does before.
 */
export const settlesWithin = async (ms: number, promise: Promise<unknown>): Promise<boolean> => {
  const settled = new AbortController()
  const timeout = delay(ms, false, { signal: settled.signal }).catch(() => false)
  try {
    return await Promise.race([promise.then(() => true), timeout])
  } finally {
    settled.abort()
  }
}
