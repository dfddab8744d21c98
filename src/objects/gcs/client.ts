// A client for the JSON API of Google Cloud Storage: signs each request, and repeats it after transient errors (429, 5xx, a broken
// connection) for minutes. Every request is idempotent.

import { GoogleAuth } from "google-auth-library"
import { messageOf } from "../../core/values/error-message.ts"
import { NETWORK_CODES, type RetryOptions, withRetries } from "../shared/retry.ts"

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
  /** Timeout of one request. */
  requestMs?: number
  /** Time for which requests are repeated while the store does not respond. */
  retryForMs?: number
  /** Pause before the first repetition; later ones are longer. */
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
const RETRY_FOR_MS = 300_000
/** Transient statuses besides 5xx. */
const TRANSIENT = [408, 429]

export class GcsClient {
  readonly #endpoint: string
  readonly #auth: GoogleAuth | null
  readonly #requestMs: number
  readonly #retryOptions: RetryOptions
  readonly #explain: (error: unknown) => unknown

  /** `explain` converts errors before they are thrown. */
  constructor(options: ClientOptions, explain: (error: unknown) => unknown) {
    const { endpoint, requestMs = REQUEST_MS, retryForMs = RETRY_FOR_MS, retryDelayMs: firstDelayMs } = options
    this.#requestMs = requestMs
    this.#retryOptions = { retryForMs, isTransient, ...(firstDelayMs !== undefined && { firstDelayMs }) }
    this.#explain = explain
    const configured = endpoint ?? process.env["STORAGE_EMULATOR_HOST"] ?? ""
    const address = configured === "" || configured.includes("://") ? configured : `http://${configured}`
    this.#endpoint = address === "" ? GOOGLE_ENDPOINT : address.replace(/\/+$/, "").replace(/\/storage\/v1$/, "")
    this.#auth = address === "" ? new GoogleAuth({ scopes: SCOPE }) : null
  }

  /** Throws for statuses other than 2xx, except the `allowed` ones: the API does not redirect. */
  async send(request: GcsRequest, allowed: readonly number[] = []): Promise<GcsResponse> {
    try {
      return await withRetries(async () => {
        const response = await this.#sendOnce(request)
        if (response.status >= 300 && !allowed.includes(response.status)) {
          throw new GcsError(response.status, errorMessageOf(response))
        }
        return response
      }, this.#retryOptions)
    } catch (error) {
      throw this.#explain(error)
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
      signal: AbortSignal.timeout(this.#requestMs),
      redirect: "manual",
      ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> }),
    })
    return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) }
  }
}

/** Errors of the network, also while credentials are fetched, and of a store that is overloaded or restarts. */
export const isTransient = (error: unknown): boolean => {
  if (error instanceof DOMException) return error.name === "TimeoutError"
  // `fetch` throws a TypeError with a cause for a failed connection.
  if (error instanceof TypeError) return error.cause !== undefined
  const { status, code } = error as { status?: unknown; code?: unknown }
  if (typeof status === "number") return status >= 500 || TRANSIENT.includes(status)
  return typeof code === "string" && NETWORK_CODES.has(code)
}

const errorMessageOf = ({ status, body }: GcsResponse): string => {
  try {
    return (JSON.parse(body.toString()) as { error: { message: string } }).error.message
  } catch {
    return `status ${status}: ${body.toString("utf8", 0, 200)}`
  }
}

const NO_BUCKET = /bucket does not exist/i
const NO_CREDENTIALS = /could not load the default credentials|no credentials/i

export const isMissing = (error: unknown): boolean =>
  error instanceof GcsError && error.status === 404 && !NO_BUCKET.test(error.message)

export const isBeyondEnd = (error: unknown): boolean => error instanceof GcsError && error.status === 416

export const explainGcs = (error: unknown, bucket: string): string => {
  const message = messageOf(error)
  if (NO_BUCKET.test(message)) return `there is no bucket ${bucket}: create it, or correct its name`
  if (NO_CREDENTIALS.test(message)) {
    return "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS to a key file, or give the machine a service account"
  }
  if (error instanceof GcsError && error.status === 401) {
    return "the credentials are rejected: check GOOGLE_APPLICATION_CREDENTIALS or the service account"
  }
  if (error instanceof GcsError && error.status === 403) {
    return `these credentials lack permissions: give them the role Storage Object User (roles/storage.objectUser) on ${bucket}`
  }
  if (error instanceof TypeError || error instanceof DOMException) {
    const reason = error.cause instanceof Error ? error.cause.message : message
    return `Google Cloud Storage cannot be reached (${reason}): check the network, and STORAGE_EMULATOR_HOST if it is set`
  }
  return message
}
