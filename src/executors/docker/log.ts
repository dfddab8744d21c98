// Copies a container's log to the attempt's log, over broken connections, without losing or repeating a byte.

import { setTimeout as delay } from "node:timers/promises"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"
import type { Engine } from "./engine.ts"
import { FrameReader, type Piece, ByteDeduplicator } from "./frames.ts"

const RETRY_MS = 250
/** Time between the end of the stream and the engine's report that the container has ended. */
const END_MS = 2000
/** Connections in a row without a byte after which the log is given up. */
const MAX_BROKEN = 20

/**
 * Copies the log. `attached` is the connection that was opened before the start. When it breaks, the rest is read from the log
 * that the engine keeps: followed while the container runs, and read once more after its end, because engines sometimes drop
 * the last lines of a followed log. `ended` resolves when the container has ended. Rejects when the log cannot be read.
 */
export const followLog = async (
  engine: Engine,
  id: string,
  { attached, sink, ended }: { attached: AsyncIterable<Buffer>; sink: LogSink; ended: Promise<unknown> },
): Promise<void> => {
  const deduplicator = new ByteDeduplicator()
  const { complete } = await copy(attached, deduplicator, sink)
  if (complete && (await settlesWithin(END_MS, ended))) return
  for (let broken = 0, last = false; ;) {
    deduplicator.restart()
    const response = await storedLog(engine, id, !last)
    const read = response === null ? null : await copy(response, deduplicator, sink)
    if (last && read?.complete === true) return
    if (read?.received === true) broken = 0
    if (++broken >= MAX_BROKEN) throw new Error("the connection to the engine breaks whenever the log is read")
    last ||= await settlesWithin(RETRY_MS, ended)
  }
}

const storedLog = (engine: Engine, id: string, follow: boolean): Promise<AsyncIterable<Buffer> | null> =>
  engine
    .stream("GET", `/containers/${id}/logs`, {
      query: { follow: String(follow), stdout: "true", stderr: "true" },
      timeoutMs: null,
    })
    .catch(() => null)

const copy = async (
  response: AsyncIterable<Buffer>,
  deduplicator: ByteDeduplicator,
  sink: LogSink,
): Promise<{ received: boolean; complete: boolean }> => {
  const frames = new FrameReader()
  let received = false
  const chunks = response[Symbol.asyncIterator]()
  for (;;) {
    // Only errors of the connection are caught here: a log that cannot be stored is not retried.
    const next = await chunks.next().catch(() => null)
    if (next === null) return { received, complete: false }
    if (next.done === true) return { received, complete: true }
    for (const { stream, bytes } of joinPieces(frames.read(next.value), deduplicator)) {
      received = true
      await sink.write(stream, bytes)
    }
  }
}

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
