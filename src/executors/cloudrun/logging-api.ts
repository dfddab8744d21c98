// Cloud Logging's API: one call, entries:list, sent once and with a time limit; callers decide about retries.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list

import { GoogleApi } from "./google-api.ts"
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

export type LoggingApi = Pick<CloudLoggingApi, "list" | "close">

export class CloudLoggingApi {
  readonly #api: GoogleApi

  /** `endpoint`: another address than Google's own, called without credentials if it is without TLS. Empty for Google's. */
  constructor(endpoint: string) {
    this.#api = new GoogleApi({ service: "Cloud Logging", address: endpoint === "" ? GOOGLE : endpoint, callMs: CALL_MS })
  }

  close(): void {
    this.#api.close()
  }

  /** Rejects with an GoogleApiError, or with ResponseTooLarge: the page must be requested with a smaller page size. */
  async list(request: LogRequest): Promise<LogPage> {
    const call = { method: "POST", path: "/v2/entries:list", body: bodyOf(request), maxBytes: MAX_BYTES } as const
    const { error, value, headers } = await this.#api.call(call)
    if (error !== null) throw error
    const { entries = [], nextPageToken = "" } = value as { entries?: LogEntry[]; nextPageToken?: string }
    const at = Date.parse(headers.get("date") ?? "")
    return { entries, next: nextPageToken, at: Number.isNaN(at) ? null : at }
  }
}

const bodyOf = ({ project, filter, pageSize, pageToken }: LogRequest): object => ({
  resourceNames: [`projects/${project}`],
  filter,
  orderBy: "timestamp asc",
  pageSize,
  ...(pageToken !== "" && { pageToken }),
})
