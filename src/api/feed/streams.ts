// Responses that are streamed: events, logs and outputs. Sends heartbeats to all open streams, cuts off readers that lag behind or whose
// key was removed, and ends the streams when the server closes.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { ServerResponse } from "node:http"
import type { Clock } from "../../core/model/ports.ts"
import { ApiError, unavailable } from "../shared/errors.ts"

export const HEARTBEAT_MS = 15_000
export const STREAM_BUFFER = 1_048_576
const MAX_STREAMS = 2000
export const STREAMS_PER_CALLER = 200
/** Time after which a reader that accepts no data is disconnected. */
const STALL_MS = 60_000

export interface StreamHead {
  type: string
  headers?: Readonly<Record<string, string>>
  /** Text that is sent regularly so that proxies keep the connection open. None for raw bytes. */
  heartbeat?: string
}

export interface StreamLimits {
  heartbeatMs: number
  bufferBytes: number
  /** Streams that one key or user may have open. */
  perCaller: number
  /** Time between two checks of the credentials of open streams. */
  recheckMs: number
  isStillValid(request: FastifyRequest): Promise<boolean>
}

export class Streams {
  readonly #clock: Clock
  readonly #limits: StreamLimits
  readonly #open = new Map<Stream, FastifyRequest>()
  readonly #closing = new AbortController()
  #cancelHeartbeat: (() => void) | null = null
  #cancelRecheck: (() => void) | null = null

  constructor(clock: Clock, limits: StreamLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Aborted when the server stops. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  get size(): number {
    return this.#open.size
  }

  /** Takes over the connection and sends the headers. Throws UNAVAILABLE or RATE_LIMITED when too many streams are open. */
  open(request: FastifyRequest, reply: FastifyReply, head: StreamHead): Stream {
    if (this.closing.aborted || this.#open.size >= MAX_STREAMS) throw unavailable("this server has too many open streams")
    if (this.#countOf(request) >= this.#limits.perCaller) {
      throw new ApiError("RATE_LIMITED", `one key may have ${this.#limits.perCaller} open streams; close some first`)
    }
    reply.hijack()
    const response = reply.raw
    const stream = new Stream(response, this.#clock, this.#limits.bufferBytes, head.heartbeat ?? null)
    this.#open.set(stream, request)
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
    this.#scheduleHeartbeat()
    this.#scheduleRecheck()
    return stream
  }

  endAll(): void {
    this.#closing.abort()
    this.#cancelHeartbeat?.()
    this.#cancelRecheck?.()
    for (const stream of this.#open.keys()) stream.end()
  }

  #countOf({ caller }: FastifyRequest): number {
    let count = 0
    for (const other of this.#open.values()) {
      const { key, name, user } = other.caller
      if (key?.id === caller.key?.id && name === caller.name && user === caller.user) count++
    }
    return count
  }

  #scheduleRecheck(): void {
    this.#cancelRecheck ??= this.#clock.after(this.#limits.recheckMs, () => void this.#recheck())
  }

  /** Cuts off the streams whose credentials are no longer valid. */
  async #recheck(): Promise<void> {
    for (const [stream, request] of this.#open) if (!(await this.#limits.isStillValid(request))) stream.abort()
    this.#cancelRecheck = null
    if (this.#open.size > 0 && !this.closing.aborted) this.#scheduleRecheck()
  }

  #scheduleHeartbeat(): void {
    this.#cancelHeartbeat ??= this.#clock.after(this.#limits.heartbeatMs, () => {
      this.#cancelHeartbeat = null
      for (const stream of this.#open.keys()) stream.sendHeartbeat()
      if (this.#open.size > 0 && !this.closing.aborted) this.#scheduleHeartbeat()
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

  /** Signal that is aborted when the reader has disconnected or the stream has ended. */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  /** Writes without waiting. Disconnects a reader that lags too far behind. */
  write(data: string | Uint8Array): void {
    if (this.closed.aborted) return
    this.#response.write(data)
    if (this.#response.writableLength > this.#bufferBytes) this.abort()
  }

  /** Writes and waits until the reader accepts more. */
  async send(data: string | Uint8Array): Promise<void> {
    if (this.closed.aborted || this.#response.write(data)) return
    await new Promise<void>((resolve) => {
      const cancelStall = this.#clock.after(STALL_MS, () => this.abort())
      const done = (): void => {
        cancelStall()
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

  /** Closes the connection without ending the response, so that the reader sees an error. */
  abort(): void {
    this.#response.destroy()
    this.#closed.abort()
  }
}
