// HTTP requests of the client: authentication, JSON, retries with growing delays. Retries reads without a response, and all requests that
// the server postponed with 503 or 429, because those changed nothing.

import type { Clock } from "../../core/model/ports.ts"
import { sleep } from "../../sleep.ts"
import { ClientError, errorOfResponse, unreachable } from "./errors.ts"

export interface TransportOptions {
  /** Without a slash at the end. */
  url: string
  key: string | null
  fetch?: typeof fetch
  clock?: Pick<Clock, "after">
  /** Attempts after the first one. */
  retries?: number
  /** Time until the headers of a response. */
  timeoutMs?: number
}

export interface Request {
  method?: "GET" | "POST" | "PUT" | "DELETE"
  /** Path after /api/v1. */
  path: string
  query?: Query
  /** Sent as JSON. */
  body?: unknown
  /** Replaces `body`; sent unchanged. */
  text?: { content: string; type: string }
  /** Replaces `body`; sent unchanged. A stream is sent once: `retries` must be 0. */
  bytes?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Record<string, string>
  signal?: AbortSignal
  /** The request may be sent twice: it changes nothing, or has an idempotency key. */
  repeatable?: boolean
}

export type Query = { readonly [name: string]: string | number | boolean | null | undefined }

const PREFIX = "/api/v1"
const RETRIES = 3
const TIMEOUT_MS = 30_000
const FIRST_WAIT_MS = 200
const MAX_WAIT_MS = 10_000

const timers: Pick<Clock, "after"> = {
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

export class Transport {
  readonly url: string
  readonly #key: string | null
  readonly #fetch: typeof fetch
  readonly #clock: Pick<Clock, "after">
  readonly #retries: number
  readonly #timeoutMs: number

  constructor(options: TransportOptions) {
    this.url = options.url
    this.#key = options.key
    // Some runtimes reject a global fetch that is called as a method.
    this.#fetch = options.fetch ?? ((...request) => fetch(...request))
    this.#clock = options.clock ?? timers
    this.#retries = options.retries ?? RETRIES
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
  }

  /** Returns the JSON of the response; undefined for status 204. Throws ClientError. */
  async json<T>(request: Request): Promise<T> {
    return (await this.reply<T>(request)).body
  }

  async reply<T>(request: Request): Promise<{ status: number; body: T }> {
    const response = await this.open(request)
    try {
      return { status: response.status, body: (response.status === 204 ? undefined : await response.json()) as T }
    } catch (error) {
      if (error instanceof SyntaxError)
        throw new ClientError("UNREADABLE", `${this.url} did not reply with JSON; check that it is the URL of an Ork server`)
      throw unreachable(this.url, error)
    }
  }

  /** Returns a successful response whose body is not read yet. Throws ClientError. */
  async open(request: Request): Promise<Response> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.#send(request)
      } catch (error) {
        const delayMs = retries < this.#retries ? retryDelay(error, request, retries) : null
        if (delayMs === null || request.signal?.aborted === true) throw error
        await this.wait(delayMs, request.signal)
      }
    }
  }

  /** Waits; resolves early when aborted. */
  wait(ms: number, signal?: AbortSignal): Promise<void> {
    return sleep(this.#clock, ms, signal)
  }

  async #send(request: Request): Promise<Response> {
    const { method = "GET", path, query, signal } = request
    const body = bodyOf(request)
    const timeout = new AbortController()
    const cancelTimeout = this.#clock.after(this.#timeoutMs, () => timeout.abort(new DOMException("too late", "TimeoutError")))
    let response: Response
    try {
      response = await this.#fetch(`${this.url}${PREFIX}${path}${queryText(query)}`, {
        method,
        headers: {
          ...(this.#key !== null && { "x-api-key": this.#key }),
          ...(body !== null && { "content-type": body.type }),
          ...request.headers,
        },
        redirect: "manual",
        signal: signal === undefined ? timeout.signal : AbortSignal.any([timeout.signal, signal]),
        ...(body !== null && { body: body.content as NonNullable<RequestInit["body"]> }),
        ...(body?.content instanceof ReadableStream && { duplex: "half" }),
      })
    } catch (error) {
      throw unreachable(this.url, error)
    } finally {
      cancelTimeout()
    }
    if (response.ok) return response
    throw await errorOfResponse(response, this.url)
  }
}

/** Returns the delay before the next attempt; null when a retry cannot help, or could apply a change twice. */
const retryDelay = (error: unknown, request: Request, retries: number): number | null => {
  if (!(error instanceof ClientError)) return null
  const backoff = FIRST_WAIT_MS * 2 ** retries
  if (error.retryAfterMs !== null) return Math.min(Math.max(error.retryAfterMs, backoff), MAX_WAIT_MS)
  const isRepeatable = (request.method ?? "GET") === "GET" || request.repeatable === true
  return isRepeatable && (error.code === "UNREACHABLE" || GATEWAY_ERRORS.includes(error.status ?? 0)) ? backoff : null
}

/** Statuses of proxies whose server is not available. */
const GATEWAY_ERRORS: readonly number[] = [502, 503, 504]

const bodyOf = ({ body, text, bytes }: Request): { content: string | NonNullable<Request["bytes"]>; type: string } | null => {
  if (text !== undefined) return text
  if (bytes !== undefined) return { content: bytes, type: "application/octet-stream" }
  return body === undefined ? null : { content: JSON.stringify(body), type: "application/json" }
}

const queryText = (query: Query = {}): string => {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null) params.set(name, String(value))
  return params.size === 0 ? "" : `?${params.toString()}`
}
