// Cloud Logging's API: one call, entries:list, sent once and ended after a time; whoever calls decides about trying again.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list

import { GoogleAuth } from "google-auth-library"
import { ApiError, unreachable } from "./api-error.ts"
import { SCOPE } from "./api.ts"
import { inTime } from "./in-time.ts"
import type { LogEntry } from "./log-entries.ts"

const GOOGLE = "https://logging.googleapis.com"
const CALL_MS = 60_000
/** Of an answer, which is parsed at once. One entry is at most 256 KiB. */
const MAX_BYTES = 8 << 20

export interface LogRequest {
  project: string
  filter: string
  pageSize: number
  /** Empty: the first page. */
  pageToken: string
}

export interface LogPage {
  entries: LogEntry[]
  /** Empty: this is the last page. One without entries may have a next one. */
  next: string
  /** When it was made, by Google's clock; null: not said. */
  at: number | null
}

/** The page holds more than is taken into memory at once: to be asked for with a smaller size. */
export class PageTooLarge extends Error {
  override readonly name = "PageTooLarge"
}

export type LogSource = Pick<CloudLoggingApi, "list" | "close">

export class CloudLoggingApi {
  readonly #address: string
  readonly #auth: GoogleAuth | null
  readonly #closed = new AbortController()

  /** `endpoint`: another address than Google's own; one without TLS is asked without credentials. Empty: Google's. */
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
      const login = this.#auth === null ? [] : await inTime(this.#auth.getRequestHeaders(this.#address), CALL_MS)
      for (const [name, value] of login) headers.set(name, value)
      const answer = await fetch(this.#address, { method: "POST", headers, body: bodyOf(request), signal, redirect: "error" })
      status = answer.status
      at = Date.parse(answer.headers.get("date") ?? "")
      body = await bytesOf(answer)
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

const bytesOf = async (answer: Response): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
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
