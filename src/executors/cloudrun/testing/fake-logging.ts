// A fake of Cloud Logging: entries of the fake executions, selected by filter and returned in pages, within a quota. Tests
// decide when entries become visible, and how many of them a page has.

import { parseFilter } from "./log-filter.ts"

const MAX_FILTER = 20_000
const MAX_PAGE = 1000
const QUOTA = 60
const MINUTE_MS = 60_000

export type Stream = "stdout" | "stderr"

/** An error that the fakes respond with. */
export class HttpError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export interface FakeEntry {
  timestamp: string
  receiveTimestamp: string
  insertId: string
  labels: { [name: string]: string }
  [field: string]: unknown
}

interface Stored {
  entry: FakeEntry
  at: number
  /** Time from which queries return the entry; Infinity until `release`. */
  visibleAt: number
}

export class FakeLogging {
  /** Filters of all requests, in order. */
  readonly filters: string[] = []
  /** Time until a written entry becomes visible. */
  lateMs = 0
  /** Selects lines that stay invisible until `release`. */
  hold: (text: string) => boolean = () => false
  /** Maximum number of entries in a response. */
  page = MAX_PAGE
  /** Number of responses that have no entries but a next page. */
  emptyPages = 0
  /** Returns the container that wrote a line; null when the job has only one. */
  container: (line: string) => string | null = () => null
  readonly #now: () => number
  readonly #stored: Stored[] = []
  readonly #reads: number[] = []
  #count = 0

  constructor(now: () => number) {
    this.#now = now
  }

  /** Stores a line as Cloud Run does. `execution`: its full name. */
  write(execution: string, stream: Stream, line: string, at = this.#now()): void {
    const [, project = "", , location = "", , job = "", , id = ""] = execution.split("/")
    this.#count += 1
    const container = this.container(line)
    const visibleAt = this.hold(line) ? Number.POSITIVE_INFINITY : at + this.lateMs
    const entry = {
      logName: `projects/${project}/logs/run.googleapis.com%2F${stream}`,
      resource: { type: "cloud_run_job", labels: { project_id: project, location, job_name: job } },
      timestamp: new Date(at).toISOString().replace(/\.?0*Z$/, "Z"),
      receiveTimestamp: new Date(Number.isFinite(visibleAt) ? visibleAt : at).toISOString(),
      insertId: `i${String(this.#count).padStart(8, "0")}`,
      labels: {
        "run.googleapis.com/execution_name": id,
        "run.googleapis.com/task_index": "0",
        "run.googleapis.com/task_attempt": "0",
        ...(container !== null && { container_name: container }),
      },
      ...payloadOf(line),
    }
    this.#stored.push({ entry, at, visibleAt })
  }

  /** Makes held lines visible. */
  release(): void {
    this.hold = () => false
    for (const one of this.#stored) if (!Number.isFinite(one.visibleAt)) this.#show(one)
  }

  #show(one: Stored): void {
    one.visibleAt = this.#now()
    one.entry.receiveTimestamp = new Date(one.visibleAt).toISOString()
  }

  list(message: { [field: string]: unknown }): object {
    const { resourceNames, filter, orderBy, pageSize, pageToken } = message as {
      resourceNames: string[]
      filter: string
      orderBy?: string
      pageSize?: number
      pageToken?: string
    }
    this.#spend()
    if (resourceNames.length === 0 || resourceNames.some((name) => !/^projects\/[^/]+$/.test(name)))
      throw new HttpError(400, "resource_names must name projects")
    if (filter.length > MAX_FILTER) throw new HttpError(400, "The filter is longer than 20000 characters")
    if (orderBy !== "timestamp asc") throw new HttpError(400, `order_by: ${orderBy} is not implemented by the fake`)
    if (pageSize === undefined || pageSize < 1 || pageSize > MAX_PAGE) throw new HttpError(400, "page_size is invalid")
    const token = tokenOf(pageToken)
    if (token !== null && (token.filter !== filter || token.pageSize !== pageSize))
      throw new HttpError(400, "page_token doesn't match arguments from the request")
    this.filters.push(filter)
    const from = token?.from ?? 0
    if (this.emptyPages > 0) {
      this.emptyPages -= 1
      return { nextPageToken: JSON.stringify({ filter, pageSize, from }) }
    }
    const all = this.#matching(filter, resourceNames)
    const to = from + Math.min(pageSize, this.page)
    const more = to < all.length && { nextPageToken: JSON.stringify({ filter, pageSize, from: to }) }
    return { ...(from < all.length && { entries: all.slice(from, to) }), ...more }
  }

  #matching(filter: string, resourceNames: string[]): FakeEntry[] {
    let matches: (entry: object) => boolean
    try {
      matches = parseFilter(filter)
    } catch (error) {
      throw new HttpError(400, (error as Error).message)
    }
    const now = this.#now()
    return this.#stored
      .filter(({ visibleAt, entry }) => {
        const inside = resourceNames.some((name) => String(entry["logName"]).startsWith(`${name}/`))
        return visibleAt <= now && inside && matches(entry)
      })
      .toSorted((a, b) => a.at - b.at || (a.entry.insertId < b.entry.insertId ? -1 : 1))
      .map(({ entry }) => entry)
  }

  #spend(): void {
    const now = this.#now()
    while (this.#reads.length > 0 && now - this.#reads[0]! >= MINUTE_MS) this.#reads.shift()
    if (this.#reads.length >= QUOTA)
      throw new HttpError(429, "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute'")
    this.#reads.push(now)
  }
}

const tokenOf = (token: string | undefined): { filter: string; pageSize: number; from: number } | null =>
  token === undefined ? null : (JSON.parse(token) as { filter: string; pageSize: number; from: number })

/** A JSON object becomes a structured payload without the fields that Cloud Logging interprets. */
const payloadOf = (line: string): object => {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value !== "object" || value === null || Array.isArray(value)) return { textPayload: line }
    const { severity, message, ...rest } = value as { severity?: string; message?: string }
    const level = severity !== undefined && { severity }
    if (Object.keys(rest).length === 0 && message !== undefined) return { textPayload: message, ...level }
    return { jsonPayload: message === undefined ? rest : { message, ...rest }, ...level }
  } catch {
    return { textPayload: line }
  }
}
