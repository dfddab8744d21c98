// Cloud Logging's API: one call, entries:list, sent once and with a time limit; callers decide about retries.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list

import { GoogleAuth } from "google-auth-library"
import { withTimeout } from "../timeout.ts"
import { ApiError, TIMED_OUT, unreachable } from "./api-error.ts"
import { SCOPE } from "./api.ts"
import type { LogEntry } from "./log-entries.ts"

const GOOGLE = "https://logging.googleapis.com"
const CALL_MS = 60_000
/** Limit of a response, which is parsed in memory. One entry has at most 256 KiB. */
const MAX_BYTES = 8 << 20

export interface LogRequest {
  project: string
  filter: string
  pageSize: number
  /** Empty for the first page. */
  pageToken: string
}

export interface LogPage {
  entries: LogEntry[]
  /** Token of the next page; empty for the last one. A page without entries may have a next one. */
  next: string
  /** Time of the response, by Google's clock; null when it has none. */
  at: number | null
}

/** The page exceeds MAX_BYTES and must be requested with a smaller page size. */
export class PageTooLarge extends Error {
  override readonly name = "PageTooLarge"
}

export type LoggingApi = Pick<CloudLoggingApi, "list" | "close">

export class CloudLoggingApi {
  readonly #address: string
  readonly #auth: GoogleAuth | null
  readonly #closed = new AbortController()

  /** `endpoint`: another address than Google's own, called without credentials if it is without TLS. Empty for Google's. */
  constructor(endpoint: string) {
    this.#address = `${(endpoint === "" ? GOOGLE : endpoint).replace(/\/+$/, "")}/v2/entries:list`
    this.#auth = endpoint.startsWith("http:") ? null : new GoogleAuth({ scopes: SCOPE })
  }

  close(): void {
    this.#closed.abort()
  }

  /** Rejects with an ApiError, or PageTooLarge. */
  async list(request: LogRequest): Promise<LogPage> {
    const signal = AbortSignal.any([AbortSignal.timeout(CALL_MS), this.#closed.signal])
    let status: number
    let at: number
    let body: Buffer
    try {
      const headers = new Headers({ "content-type": "application/json" })
      const login = this.#auth?.getRequestHeaders(this.#address) ?? new Headers()
      for (const [name, value] of await withTimeout(login, CALL_MS, TIMED_OUT)) headers.set(name, value)
      const response = await fetch(this.#address, { method: "POST", headers, body: bodyOf(request), signal, redirect: "error" })
      status = response.status
      at = Date.parse(response.headers.get("date") ?? "")
      body = await bytesOf(response)
    } catch (error) {
      if (error instanceof PageTooLarge) throw error
      throw unreachable("Cloud Logging", error)
    }
    if (status !== 200) throw new ApiError(status, messageOf(status, body))
    const { entries = [], nextPageToken = "" } = parsed(body)
    return { entries, next: nextPageToken, at: Number.isNaN(at) ? null : at }
  }
}

const bodyOf = ({ project, filter, pageSize, pageToken }: LogRequest): string =>
  JSON.stringify({
    resourceNames: [`projects/${project}`],
    filter,
    orderBy: "timestamp asc",
    pageSize,
    ...(pageToken !== "" && { pageToken }),
  })

const bytesOf = async (response: Response): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += piece.byteLength
    if (size > MAX_BYTES) throw new PageTooLarge()
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

const parsed = (body: Buffer): { entries?: LogEntry[]; nextPageToken?: string } => {
  try {
    return JSON.parse(body.toString()) as { entries?: LogEntry[]; nextPageToken?: string }
  } catch (error) {
    throw unreachable("Cloud Logging", error)
  }
}

const messageOf = (status: number, body: Buffer): string => {
  try {
    return (JSON.parse(body.toString()) as { error: { message: string } }).error.message
  } catch {
    return `status ${status}: ${body.toString("utf8", 0, 200)}`
  }
}
