// Asks Google Cloud Storage by its JSON API: signs each request, tries again what may pass (429, 5xx, a broken connection) with growing
// pauses, and gives up in bounded time. Every request here may be sent twice without harm.

import { setTimeout as delay } from "node:timers/promises"
import { GoogleAuth } from "google-auth-library"

export interface GcsRequest {
  method: "GET" | "POST" | "PUT" | "DELETE"
  /** A path below the endpoint, or a whole address. */
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
  /** A server other than Google's; asked without credentials. */
  endpoint?: string
  /** After the first failure; the next ones are longer. */
  retryDelayMs?: number
}

/** A refusal that is the caller's to judge. */
export class GcsError extends Error {
  override readonly name = "GcsError"
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const GOOGLE = "https://storage.googleapis.com"
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
const REQUEST_MS = 60_000
const TRIES = 5
const FIRST_PAUSE_MS = 250
/** Beside 5xx. */
const PASSING = [408, 429]

export class GcsClient {
  readonly #endpoint: string
  readonly #auth: GoogleAuth | null
  readonly #pauseMs: number
  readonly #explain: (error: unknown) => unknown

  /** `explain` makes of an error what the callers throw. */
  constructor({ endpoint, retryDelayMs = FIRST_PAUSE_MS }: ClientOptions, explain: (error: unknown) => unknown) {
    this.#pauseMs = retryDelayMs
    this.#explain = explain
    const other = endpoint ?? process.env["STORAGE_EMULATOR_HOST"] ?? ""
    const address = other === "" || other.includes("://") ? other : `http://${other}`
    this.#endpoint = address === "" ? GOOGLE : address.replace(/\/+$/, "").replace(/\/storage\/v1$/, "")
    this.#auth = address === "" ? new GoogleAuth({ scopes: SCOPE }) : null
  }

  /** Any answer but a refusal; `allowed` are statuses that count as none. */
  async send(request: GcsRequest, allowed: readonly number[] = []): Promise<GcsResponse> {
    try {
      return await this.#ask(request, allowed)
    } catch (error) {
      throw this.#explain(error)
    }
  }

  async #ask(request: GcsRequest, allowed: readonly number[]): Promise<GcsResponse> {
    for (let tries = 1; ; tries++) {
      const answer = await this.#once(request).catch((error: unknown) => {
        if (tries >= TRIES || !isNetworkError(error)) throw error
        return null
      })
      if (answer !== null && (answer.status < 400 || allowed.includes(answer.status))) return answer
      const passes = answer === null || answer.status >= 500 || PASSING.includes(answer.status)
      if (answer !== null && (!passes || tries >= TRIES)) throw new GcsError(answer.status, errorMessageOf(answer))
      await delay(this.#pauseMs * 2 ** (tries - 1) * (0.5 + Math.random() / 2))
    }
  }

  async #once({ method, path, query, headers, body }: GcsRequest): Promise<GcsResponse> {
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

/** `fetch` says TypeError for a connection that failed, and why in its cause; DOMException for one that took too long. */
const isNetworkError = (error: unknown): boolean =>
  (error instanceof TypeError && error.cause !== undefined) || (error instanceof DOMException && error.name === "TimeoutError")

const errorMessageOf = ({ status, body }: GcsResponse): string => {
  try {
    return (JSON.parse(body.toString()) as { error: { message: string } }).error.message
  } catch {
    return `status ${status}: ${body.toString("utf8", 0, 200)}`
  }
}
