// Calls of a JSON API of Google, with application default credentials, each sent once and with a time limit, and through the proxy in
// HTTPS_PROXY if there is one.

import { GoogleAuth } from "google-auth-library"
import { EnvHttpProxyAgent, fetch, type Response } from "undici"
import { withTimeout } from "../timeout.ts"
import { GoogleApiError, TIMED_OUT, unreachable } from "./api-error.ts"

const SCOPE = "https://www.googleapis.com/auth/cloud-platform"

export interface GoogleApiOptions {
  /** Name for error messages. */
  service: string
  /** Called without credentials if it is without TLS. */
  address: string
  /** Limit of a call, and of the time for its credentials. */
  callMs: number
}

export interface ApiCall {
  method: "GET" | "POST"
  /** The path and the query. */
  path: string
  body?: object
  /** Limit of the response, which is parsed in memory. */
  maxBytes: number
}

/** `error` is null for status 200, and `value` is the parsed body. */
export type ApiResponse = { headers: Response["headers"] } & (
  | { error: null; value: unknown }
  | { error: GoogleApiError; value?: never }
)

/** A response exceeds `maxBytes`. */
export class ResponseTooLarge extends Error {
  override readonly name = "ResponseTooLarge"
}

export class GoogleApi {
  readonly #options: GoogleApiOptions
  readonly #address: string
  readonly #auth: GoogleAuth | null
  readonly #dispatcher = new EnvHttpProxyAgent()
  readonly #closed = new AbortController()

  constructor(options: GoogleApiOptions) {
    this.#options = options
    this.#address = options.address.replace(/\/+$/, "")
    this.#auth = options.address.startsWith("http:") ? null : new GoogleAuth({ scopes: SCOPE })
  }

  close(): void {
    this.#closed.abort()
    void this.#dispatcher.destroy()
  }

  /** Rejects with an GoogleApiError without a complete response, or with ResponseTooLarge. */
  async call({ method, path, body, maxBytes }: ApiCall): Promise<ApiResponse> {
    const { service, callMs } = this.#options
    try {
      const address = this.#address + path
      const login = await withTimeout(this.#auth?.getRequestHeaders(address) ?? new Headers(), callMs, TIMED_OUT)
      const headers = { ...Object.fromEntries(login), ...(body !== undefined && { "content-type": "application/json" }) }
      const signal = AbortSignal.any([AbortSignal.timeout(callMs), this.#closed.signal])
      const content = body === undefined ? {} : { body: JSON.stringify(body) }
      const dispatcher = this.#dispatcher
      const response = await fetch(address, { method, headers, signal, dispatcher, redirect: "error", ...content })
      const text = (await bytesOf(response, maxBytes)).toString()
      if (response.status === 200) return { headers: response.headers, error: null, value: JSON.parse(text) as unknown }
      return { headers: response.headers, error: new GoogleApiError(response.status, messageOf(response.status, text)) }
    } catch (error) {
      throw error instanceof ResponseTooLarge ? error : unreachable(service, error)
    }
  }
}

const bytesOf = async (response: Response, maxBytes: number): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += piece.byteLength
    if (size > maxBytes) throw new ResponseTooLarge(`a response has more than ${maxBytes} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

const messageOf = (status: number, text: string): string => {
  try {
    return (JSON.parse(text) as { error: { message: string } }).error.message
  } catch {
    return `status ${status}: ${text.slice(0, 200)}`
  }
}
