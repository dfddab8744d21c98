// Requests of the client: the key, JSON in and out, tries again with growing waits. fetch keeps connections alive by itself.
// Tried again: reads that got no answer, and anything that the server put off with 503 or 429, which changed nothing.

import type { Clock } from "../../core/model/ports.ts"
import { ClientError, refusalOf, unreachable } from "./errors.ts"

export interface TransportOptions {
  /** Without a slash at the end. */
  url: string
  key: string | null
  fetch?: typeof fetch
  clock?: Pick<Clock, "after">
  /** Tries beyond the first. */
  retries?: number
  /** For one answer to begin. */
  timeoutMs?: number
}

export interface Request {
  method?: "GET" | "POST" | "PUT" | "DELETE"
  /** Below /api/v1. */
  path: string
  query?: Query
  /** Sent as JSON. */
  body?: unknown
  /** Sent as it stands, in place of `body`. */
  text?: { content: string; type: string }
  /** The same for bytes. */
  bytes?: Uint8Array
  headers?: Record<string, string>
  signal?: AbortSignal
  /** A change that may be sent twice: it carries an idempotency key. */
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
    this.#fetch = options.fetch ?? fetch
    this.#clock = options.clock ?? timers
    this.#retries = options.retries ?? RETRIES
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
  }

  /** The answer's JSON; undefined for 204. Throws ClientError. */
  async json<T>(request: Request): Promise<T> {
    return (await this.answer<T>(request)).body
  }

  async answer<T>(request: Request): Promise<{ status: number; body: T }> {
    const response = await this.open(request)
    try {
      return { status: response.status, body: (response.status === 204 ? undefined : await response.json()) as T }
    } catch (error) {
      if (error instanceof SyntaxError) throw new ClientError("UNREADABLE", `${this.url} did not answer with JSON; is it Ork?`)
      throw unreachable(this.url, error)
    }
  }

  /** A successful answer whose body is still to be read. */
  async open(request: Request): Promise<Response> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#once(request)
      } catch (error) {
        const waitMs = tries < this.#retries ? waitOf(error, request, tries) : null
        if (waitMs === null || request.signal?.aborted === true) throw error
        await this.wait(waitMs, request.signal)
      }
    }
  }

  /** Resolves early when aborted. */
  wait(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve)
      signal?.addEventListener("abort", () => (cancel(), resolve()), { once: true })
    })
  }

  async #once(request: Request): Promise<Response> {
    const { method = "GET", path, query, signal } = request
    const sent = bodyOf(request)
    const begun = new AbortController()
    const late = this.#clock.after(this.#timeoutMs, () => begun.abort(new DOMException("too late", "TimeoutError")))
    let response: Response
    try {
      response = await this.#fetch(`${this.url}${PREFIX}${path}${queryText(query)}`, {
        method,
        headers: {
          ...(this.#key !== null && { "x-api-key": this.#key }),
          ...(sent !== null && { "content-type": sent.type }),
          ...request.headers,
        },
        redirect: "manual",
        signal: signal === undefined ? begun.signal : AbortSignal.any([begun.signal, signal]),
        ...(sent !== null && { body: sent.content }),
      })
    } catch (error) {
      throw unreachable(this.url, error)
    } finally {
      late()
    }
    if (response.ok) return response
    throw await refusalOf(response, this.url)
  }
}

/** Before the next try; null: there is no use in one, or it could do something twice. */
const waitOf = (error: unknown, request: Request, tries: number): number | null => {
  if (!(error instanceof ClientError)) return null
  const backOff = FIRST_WAIT_MS * 2 ** tries
  if (error.retryAfterMs !== null) return Math.min(Math.max(error.retryAfterMs, backOff), MAX_WAIT_MS)
  const safe = (request.method ?? "GET") === "GET" || request.repeatable === true
  return safe && (error.code === "UNREACHABLE" || GATEWAY.includes(error.status ?? 0)) ? backOff : null
}

/** What proxies say while the server behind them is away. */
const GATEWAY: readonly number[] = [502, 503, 504]

const bodyOf = ({ body, text, bytes }: Request): { content: string | Uint8Array; type: string } | null => {
  if (text !== undefined) return text
  if (bytes !== undefined) return { content: bytes, type: "application/octet-stream" }
  return body === undefined ? null : { content: JSON.stringify(body), type: "application/json" }
}

const queryText = (query: Query = {}): string => {
  const given = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null) given.set(name, String(value))
  return given.size === 0 ? "" : `?${given.toString()}`
}
