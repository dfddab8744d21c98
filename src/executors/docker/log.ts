// Follows a container's log to its end, over broken connections, without a byte lost or twice.

import { setTimeout as delay } from "node:timers/promises"
import type { LogStream } from "../../objects/logs/log-chunks.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"
import type { Engine } from "./engine.ts"
import { FrameReader, type Piece, SeenBytes } from "./frames.ts"

const AGAIN_MS = 250
/** An engine that has ended its answer tells of the container's end within this. */
const END_MS = 2000
/** Broken connections in a row without a byte in between. */
const MAX_BROKEN = 20

/**
 * `attached` is the connection that was made before the start. When it breaks, the rest comes from what the engine has kept: followed
 * while the container lives, and read once more after its end, as engines drop the last lines of a followed log at times. `ended`
 * resolves with the container's end. Rejects when the log cannot be had.
 */
export const followLog = async (
  engine: Engine,
  id: string,
  { attached, sink, ended }: { attached: AsyncIterable<Buffer>; sink: LogSink; ended: Promise<unknown> },
): Promise<void> => {
  const seen = new SeenBytes()
  const { whole } = await copy(attached, seen, sink)
  if (whole && (await within(END_MS, ended))) return
  for (let broken = 0, last = false; ;) {
    seen.restart()
    const response = await keptLog(engine, id, !last)
    const read = response === null ? null : await copy(response, seen, sink)
    if (last && read?.whole === true) return
    if (read?.fresh === true) broken = 0
    if (++broken >= MAX_BROKEN) throw new Error("the engine breaks off its log again and again")
    last ||= await within(AGAIN_MS, ended)
  }
}

const keptLog = (engine: Engine, id: string, follow: boolean): Promise<AsyncIterable<Buffer> | null> =>
  engine
    .stream("GET", `/containers/${id}/logs`, {
      query: { follow: String(follow), stdout: "true", stderr: "true" },
      timeoutMs: null,
    })
    .catch(() => null)

const copy = async (
  response: AsyncIterable<Buffer>,
  seen: SeenBytes,
  sink: LogSink,
): Promise<{ fresh: boolean; whole: boolean }> => {
  const frames = new FrameReader()
  let fresh = false
  const chunks = response[Symbol.asyncIterator]()
  for (;;) {
    // Only a broken connection is tried again, not a log that cannot be stored.
    const next = await chunks.next().catch(() => null)
    if (next === null) return { fresh, whole: false }
    if (next.done === true) return { fresh, whole: true }
    for (const { stream, bytes } of joined(frames.read(next.value), seen)) {
      fresh = true
      await sink.write(stream, bytes)
    }
  }
}

/** The engine sends a frame for each line: those of one stream that follow each other are written as one. */
const joined = (pieces: Piece[], seen: SeenBytes): Piece[] => {
  const runs: { stream: LogStream; parts: Buffer[] }[] = []
  for (const piece of pieces) {
    const bytes = seen.fresh(piece)
    if (bytes.length === 0) continue
    const run = runs.at(-1)
    if (run?.stream === piece.stream) run.parts.push(bytes)
    else runs.push({ stream: piece.stream, parts: [bytes] })
  }
  return runs.map(({ stream, parts }) => ({ stream, bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts) }))
}

export const within = async (ms: number, happening: Promise<unknown>): Promise<boolean> => {
  const giveUp = new AbortController()
  const late = delay(ms, false, { signal: giveUp.signal }).catch(() => false)
  try {
    return await Promise.race([happening.then(() => true), late])
  } finally {
    giveUp.abort()
  }
}
