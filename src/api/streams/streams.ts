// Answers that go on: event streams and followed logs. Knows all that are open, keeps them alive, cuts off readers that lag, and
// ends them when the server closes.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { ServerResponse } from "node:http"
import type { Clock } from "../../core/model/ports.ts"
import { unavailable } from "../http/errors.ts"

export const HEARTBEAT_MS = 15_000
export const STREAM_BUFFER = 1_048_576
const MAX_STREAMS = 2000
/** A reader that takes nothing for this long is gone. */
const STALL_MS = 60_000

export interface StreamHead {
  type: string
  headers?: Readonly<Record<string, string>>
  /** Sent now and then so that proxies keep the connection; none for raw bytes. */
  heartbeat?: string
}

export interface StreamLimits {
  heartbeatMs: number
  bufferBytes: number
}

export class Streams {
  readonly #clock: Clock
  readonly #limits: StreamLimits
  readonly #open = new Set<Stream>()
  #closing = false
  #cancelBeat: (() => void) | null = null

  constructor(clock: Clock, limits: StreamLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /** Takes the connection over; nothing is sent before. Throws UNAVAILABLE when there are too many. */
  open(request: FastifyRequest, reply: FastifyReply, head: StreamHead): Stream {
    if (this.#closing || this.#open.size >= MAX_STREAMS) throw unavailable("this server has too many open streams")
    reply.hijack()
    const response = reply.raw
    const stream = new Stream(response, this.#clock, this.#limits.bufferBytes, head.heartbeat ?? null)
    this.#open.add(stream)
    stream.closed.addEventListener("abort", () => this.#open.delete(stream), { once: true })
    response.writeHead(200, {
      "content-type": head.type,
      "cache-control": "no-store",
      "x-accel-buffering": "no",
      "x-content-type-options": "nosniff",
      ...head.headers,
    })
    response.flushHeaders()
    if (request.raw.destroyed && !response.writable) stream.abort()
    this.#beat()
    return stream
  }

  endAll(): void {
    this.#closing = true
    this.#cancelBeat?.()
    for (const stream of this.#open) stream.end()
  }

  #beat(): void {
    this.#cancelBeat ??= this.#clock.after(this.#limits.heartbeatMs, () => {
      this.#cancelBeat = null
      for (const stream of this.#open) stream.sendHeartbeat()
      if (this.#open.size > 0 && !this.#closing) this.#beat()
    })
  }
}

export class Stream {
  readonly #response: ServerResponse
  readonly #clock: Clock
  readonly #bufferBytes: number
  readonly #heartbeat: string | null
  readonly #closed = new AbortController()

  constructor(response: ServerResponse, clock: Clock, bufferBytes: number, heartbeat: string | null) {
    this.#response = response
    this.#clock = clock
    this.#bufferBytes = bufferBytes
    this.#heartbeat = heartbeat
    response.once("close", () => this.#closed.abort())
    response.on("error", () => this.abort())
  }

  /** Aborted when the reader has gone or the stream has ended. */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  /** Does not wait: a reader that has fallen too far behind is cut off. */
  write(data: string | Uint8Array): void {
    if (this.closed.aborted) return
    this.#response.write(data)
    if (this.#response.writableLength > this.#bufferBytes) this.abort()
  }

  /** Waits until the reader has room for more. */
  async send(data: string | Uint8Array): Promise<void> {
    if (this.closed.aborted || this.#response.write(data)) return
    await new Promise<void>((resolve) => {
      const stalled = this.#clock.after(STALL_MS, () => this.abort())
      const done = (): void => {
        stalled()
        this.closed.removeEventListener("abort", done)
        this.#response.off("drain", done)
        resolve()
      }
      this.#response.once("drain", done)
      this.closed.addEventListener("abort", done)
    })
  }

  sendHeartbeat(): void {
    if (this.#heartbeat !== null) this.write(this.#heartbeat)
  }

  end(): void {
    if (this.closed.aborted) return
    this.#response.end()
    this.#closed.abort()
  }

  abort(): void {
    this.#response.destroy()
    this.#closed.abort()
  }
}
