// A client for the JSON API of Google Cloud Storage: signs each request, and retries transient errors (429, 5xx, a broken connection)
// with growing delays for a bounded time. Every request is idempotent.

import { setTimeout as delay } from "node:timers/promises"
import { GoogleAuth } from "google-auth-library"

export interface GcsRequest {
  method: "GET" | "POST" | "PUT" | "DELETE"
  /** Path below the endpoint, or a full address. */
  path: string
  query?: { [name: string]: string | number | undefined }
  headers?: { [name: string]: string }
  body?: Uint8Array
}

export interface GcsResponse {
  status: number
  headers: Headers
  body: Buffer
}

export interface ClientOptions {
  /** Another server than Google's; it gets no credentials. */
  endpoint?: string
  /** Delay after the first failure; later ones are longer. */
  retryDelayMs?: number
}

/** An error response. */
export class GcsError extends Error {
  override readonly name = "GcsError"
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const GOOGLE_ENDPOINT = "https://storage.googleapis.com"
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
const REQUEST_MS = 60_000
const MAX_TRIES = 5
const FIRST_DELAY_MS = 250
/** Transient statuses besides 5xx. */
const TRANSIENT = [408, 429]

export class GcsClient {
  readonly #endpoint: string
  readonly #auth: GoogleAuth | null
  readonly #retryDelayMs: number
  readonly #explain: (error: unknown) => unknown

  /** `explain` converts errors before they are thrown. */
  constructor({ endpoint, retryDelayMs = FIRST_DELAY_MS }: ClientOptions, explain: (error: unknown) => unknown) {
    this.#retryDelayMs = retryDelayMs
    this.#explain = explain
    const configured = endpoint ?? process.env["STORAGE_EMULATOR_HOST"] ?? ""
    const address = configured === "" || configured.includes("://") ? configured : `http://${configured}`
    this.#endpoint = address === "" ? GOOGLE_ENDPOINT : address.replace(/\/+$/, "").replace(/\/storage\/v1$/, "")
    this.#auth = address === "" ? new GoogleAuth({ scopes: SCOPE }) : null
  }

  /** Throws for statuses of 400 and more, except the `allowed` ones. */
  async send(request: GcsRequest, allowed: readonly number[] = []): Promise<GcsResponse> {
    try {
      return await this.#sendWithRetries(request, allowed)
    } catch (error) {
      throw this.#explain(error)
    }
  }

  async #sendWithRetries(request: GcsRequest, allowed: readonly number[]): Promise<GcsResponse> {
    for (let tries = 1; ; tries++) {
      const response = await this.#sendOnce(request).catch((error: unknown) => {
        if (tries >= MAX_TRIES || !isNetworkError(error)) throw error
        return null
      })
      if (response !== null && (response.status < 400 || allowed.includes(response.status))) return response
      const transient = response === null || response.status >= 500 || TRANSIENT.includes(response.status)
      if (response !== null && (!transient || tries >= MAX_TRIES)) throw new GcsError(response.status, errorMessageOf(response))
      await delay(this.#retryDelayMs * 2 ** (tries - 1) * (0.5 + Math.random() / 2))
    }
  }

  async #sendOnce({ method, path, query, headers, body }: GcsRequest): Promise<GcsResponse> {
    const url = new URL(path.startsWith("/") ? this.#endpoint + path : path)
    for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) url.searchParams.set(name, String(value))
    const all = new Headers(headers)
    for (const [name, value] of (await this.#auth?.getRequestHeaders(url)) ?? []) all.set(name, value)
    const response = await fetch(url, {
      method,
      headers: all,
      signal: AbortSignal.timeout(REQUEST_MS),
      redirect: "manual",
      ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> }),
    })
    return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) }
  }
}

/** `fetch` throws a TypeError with a cause for a failed connection, and a DOMException for a timeout. */
const isNetworkError = (error: unknown): boolean =>
  (error instanceof TypeError && error.cause !== undefined) || (error instanceof DOMException && error.name === "TimeoutError")

const errorMessageOf = ({ status, body }: GcsResponse): string => {
  try {
    return (JSON.parse(body.toString()) as { error: { message: string } }).error.message
  } catch {
    return `status ${status}: ${body.toString("utf8", 0, 200)}`
  }
}
