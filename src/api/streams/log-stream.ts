// Sends logs. A slow reader slows down the reading, a disconnected reader ends it. Only one piece is in memory at a time.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { TaskLog } from "../../objects/logs/task-log.ts"
import { invalidField } from "../shared/errors.ts"
import { CONTENT_TYPES, formatOf, lineText, type LogFormat } from "./log-format.ts"
import type { LogSource } from "./log-source.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "../feed/streams.ts"

export interface LogRequest {
  api: Api
  request: FastifyRequest
  reply: FastifyReply
  offset: number
  /** Maximum number of bytes; only for the raw format. */
  length?: number | undefined
}

/** Returns the byte at which a range begins. A negative offset counts from the end. */
const startOf = (size: number, offset: number): number => (offset < 0 ? Math.max(0, size + offset) : Math.min(offset, size))

/** Sends the current content of a log. null: an empty log. */
export const sendLog = async ({ api, request, reply, offset, length }: LogRequest, log: TaskLog | null): Promise<void> => {
  const format = formatOf(request.headers.accept)
  if (length !== undefined && format !== "raw") throw invalidField("length", "is only for the raw log")
  const size = log === null ? 0 : await log.size()
  const start = startOf(size, offset)
  const end = Math.min(size, start + (length ?? size))
  const headers = {
    "x-ork-size": String(size),
    ...(format === "raw" && { "x-ork-next-offset": String(end), "content-length": String(end - start) }),
  }
  const stream = api.streams.open(request, reply, { type: CONTENT_TYPES[format], headers })
  await endOrAbort(api, stream, async () => {
    if (log === null) return
    if (format === "raw") await sendRange(stream, log, start, end)
    else await sendAttempt(stream, log, { offset: start }, format)
  })
}

/** Returns the times and the streams of the bytes in a range. */
export const logTimesOf = async (log: TaskLog | null, { offset, length }: { offset: number; length: number }) => {
  const size = log === null ? 0 : await log.size()
  const start = startOf(size, offset)
  const end = Math.min(size, start + length)
  const chunks = log === null || start === end ? [] : await log.chunks(start, end)
  const times = chunks.map((chunk) => ({ offset: chunk.offset, at: new Date(chunk.at).toISOString(), stream: chunk.stream }))
  return { size, offset: start, next_offset: end, times }
}

/** Sends the logs of a source until it ends. */
export const followLog = async (asked: LogRequest, source: LogSource): Promise<void> => {
  const { api, request, reply } = asked
  if (asked.length !== undefined) throw invalidField("length", "cannot be combined with follow")
  const format = formatOf(request.headers.accept)
  const stream = api.streams.open(request, reply, {
    type: CONTENT_TYPES[format],
    ...(format === "sse" && { heartbeat: ": ping\n\n" }),
  })
  await endOrAbort(api, stream, async () => {
    let offset = asked.offset
    for await (const { log, ended } of source(stream.closed)) {
      await sendAttempt(stream, log, { offset, ...(ended !== undefined && { ended }) }, format)
      if (stream.closed.aborted) return
      offset = 0
    }
    if (format === "sse") await stream.send("event: end\ndata: {}\n\n")
  })
}

const sendRange = async (stream: Stream, log: TaskLog, start: number, end: number): Promise<void> => {
  for (let at = start; at < end && !stream.closed.aborted;) {
    const { bytes, next } = await log.read(at)
    if (bytes.byteLength === 0) return
    await stream.send(bytes.subarray(0, end - at))
    at = next
  }
}

const sendAttempt = async (
  stream: Stream,
  log: TaskLog,
  options: { offset: number; ended?: AbortSignal },
  format: LogFormat,
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

/** Ends the stream after `work`. An error aborts the stream, because its status has already been sent. */
const endOrAbort = async (api: Api, stream: Stream, work: () => Promise<void>): Promise<void> => {
  try {
    await work()
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "aborted a log stream")
    stream.abort()
  }
}
