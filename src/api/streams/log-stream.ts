// Sends logs. A reader that is slow slows the reading down, one that has gone ends it; nothing is kept in memory but one piece.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { TaskLog } from "../../objects/logs/logs.ts"
import { invalidField } from "../http/errors.ts"
import { formatOf, lineText, TYPE_OF } from "./log-format.ts"
import type { LogSource } from "./log-source.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "./streams.ts"

export interface LogRequest {
  api: Api
  request: FastifyRequest
  reply: FastifyReply
  offset: number
  /** Bytes at most; only of raw bytes. */
  length?: number | undefined
}

/** Where a request begins in a log of this size. */
const placeIn = (size: number, offset: number): number => (offset < 0 ? Math.max(0, size + offset) : Math.min(offset, size))

/** What is there now. null: nothing was ever written. */
export const sendLog = async (asked: LogRequest, log: TaskLog | null): Promise<void> => {
  const { api, request, reply } = asked
  const format = formatOf(request.headers.accept)
  if (asked.length !== undefined && format !== "raw") throw invalidField("length", "goes with the raw log only")
  const size = log === null ? 0 : await log.size()
  const start = placeIn(size, asked.offset)
  const end = Math.min(size, start + (asked.length ?? size))
  const headers = {
    "x-ork-size": String(size),
    ...(format === "raw" && { "x-ork-next-offset": String(end), "content-length": String(end - start) }),
  }
  const stream = api.streams.open(request, reply, { type: TYPE_OF[format], headers })
  await guarded(api, stream, async () => {
    if (log === null) return
    if (format === "raw") return sendBytes(stream, log, start, end)
    for await (const line of log.lines({ offset: start })) {
      if (stream.closed.aborted) return
      await stream.send(lineText(line, format))
    }
  })
}

/** When the bytes of a range were written, and to which stream. */
export const timesOf = async (log: TaskLog | null, { offset, length }: { offset: number; length: number }) => {
  const size = log === null ? 0 : await log.size()
  const start = placeIn(size, offset)
  const end = Math.min(size, start + length)
  const chunks = log === null || start === end ? [] : await log.chunks(start, end)
  const times = chunks.map((chunk) => ({ offset: chunk.offset, at: new Date(chunk.at).toISOString(), stream: chunk.stream }))
  return { size, offset: start, next_offset: end, times }
}

const sendBytes = async (stream: Stream, log: TaskLog, start: number, end: number): Promise<void> => {
  for (let at = start; at < end && !stream.closed.aborted;) {
    const { bytes, next } = await log.read(at)
    if (bytes.byteLength === 0) return
    await stream.send(bytes.subarray(0, end - at))
    at = next
  }
}

/** Until the task ends. */
export const followLog = async (asked: LogRequest, source: LogSource): Promise<void> => {
  const { api, request, reply } = asked
  if (asked.length !== undefined) throw invalidField("length", "does not go with follow")
  const format = formatOf(request.headers.accept)
  const stream = api.streams.open(request, reply, {
    type: TYPE_OF[format],
    ...(format === "sse" && { heartbeat: ": ping\n\n" }),
  })
  await guarded(api, stream, async () => {
    let offset = asked.offset
    for await (const { log, ended } of source(stream.closed)) {
      await sendAttempt(stream, log, { offset, ...(ended !== undefined && { ended }) }, format)
      if (stream.closed.aborted) return
      offset = 0
    }
    if (format === "sse") await stream.send("event: end\ndata: {}\n\n")
  })
}

const sendAttempt = async (
  stream: Stream,
  log: TaskLog,
  options: { offset: number; ended?: AbortSignal },
  format: ReturnType<typeof formatOf>,
): Promise<void> => {
  if (format === "raw") {
    for await (const bytes of log.bytes(options)) {
      if (stream.closed.aborted) return
      await stream.send(bytes)
    }
    return
  }
  for await (const line of log.lines(options)) {
    if (stream.closed.aborted) return
    await stream.send(lineText(line, format))
  }
}

/** The head is sent already: an error can only cut the stream short. */
const guarded = async (api: Api, stream: Stream, work: () => Promise<void>): Promise<void> => {
  try {
    await work()
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "a log stream was cut short")
    stream.abort()
  }
}
