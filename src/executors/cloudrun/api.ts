// Cloud Run's Admin API by REST: five calls, each sent once and with a time limit; callers decide about retries. When the service asks to
// wait (429 or 503 with Retry-After), all calls wait.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs.executions

import type { Clock } from "../../core/model/ports.ts"
import { delay } from "../remote/retry.ts"
import { isStatus } from "./api-error.ts"
import { GoogleApi } from "./google-api.ts"
import type { Execution, ExecutionName, JobName, RunRequest, Task } from "./shapes.ts"

const GOOGLE = "https://run.googleapis.com"
const CALL_MS = 30_000
/** Limit of a response: a page of executions with long commands and environments. */
const MAX_BYTES = 64 << 20
export const PAGE = 100
/** Cloud Run keeps the newest 1,000 executions for more than a week. */
export const MAX_PAGES = 10
const MAX_RETRY_AFTER_MS = 60_000

export interface ApiOptions {
  clock: Clock
  /** Another address than Google's own, called without credentials if it is without TLS. Empty for Google's. */
  endpoint: string
}

export class CloudRunApi {
  readonly #clock: Clock
  readonly #api: GoogleApi
  #retryAt = 0

  constructor({ clock, endpoint }: ApiOptions) {
    this.#clock = clock
    this.#api = new GoogleApi({ service: "Cloud Run", address: endpoint === "" ? GOOGLE : endpoint, callMs: CALL_MS })
  }

  /** Starts an execution, whose fields may be missing in the response. Resolves with null when aborted before the call. */
  async run({ name, ...request }: RunRequest, signal: AbortSignal): Promise<Execution | null> {
    await this.#untilAllowed(signal)
    if (signal.aborted) return null
    const operation = await this.#call<{ metadata?: Execution }>("POST", `${name}:run`, request)
    return operation.metadata ?? {}
  }

  get(name: ExecutionName): Promise<Execution> {
    return this.#call("GET", name)
  }

  /** Lists executions, newest first. */
  async list(parent: JobName, pageToken: string): Promise<{ executions: Execution[]; next: string }> {
    const query = new URLSearchParams({ pageSize: String(PAGE), ...(pageToken !== "" && { pageToken }) })
    const page = await this.#call<{ executions?: Execution[]; nextPageToken?: string }>(
      "GET",
      `${parent}/executions?${query.toString()}`,
    )
    return { executions: page.executions ?? [], next: page.nextPageToken ?? "" }
  }

  /** Lists the newest executions of a job; none of a job that was deleted. */
  async *listAll(parent: JobName): AsyncGenerator<Execution> {
    for (let page = 0, token = ""; page < MAX_PAGES && (page === 0 || token !== ""); page++) {
      const { executions, next } = await this.list(parent, token).catch((error: unknown) => {
        if (isStatus(error, 404)) return { executions: [], next: "" }
        throw error
      })
      yield* executions
      token = next
    }
  }

  /** Resolves when the request is accepted; the execution ends later. */
  async cancel(name: ExecutionName): Promise<void> {
    await this.#call("POST", `${name}:cancel`, {})
  }

  async task(parent: ExecutionName): Promise<Task | null> {
    const { tasks } = await this.#call<{ tasks?: Task[] }>("GET", `${parent}/tasks?pageSize=1`)
    return tasks?.[0] ?? null
  }

  close(): void {
    this.#api.close()
  }

  async #call<Reply>(method: "GET" | "POST", path: string, body?: object): Promise<Reply> {
    await this.#untilAllowed()
    const response = await this.#api.call({
      method,
      path: `/v2/${path}`,
      maxBytes: MAX_BYTES,
      ...(body !== undefined && { body }),
    })
    const seconds = Number(response.headers.get("retry-after") ?? "")
    if (Number.isFinite(seconds) && isStatus(response.error, 429, 503)) this.#pause(seconds * 1000)
    if (response.error !== null) throw response.error
    return response.value as Reply
  }

  /** Waits as long as the service has asked for, or until the signal aborts. */
  async #untilAllowed(signal?: AbortSignal): Promise<void> {
    for (let left = this.#left(); left > 0 && signal?.aborted !== true; left = this.#left())
      await delay(this.#clock, left, signal)
  }

  #left(): number {
    return this.#retryAt - this.#clock.monotonic()
  }

  #pause(ms: number): void {
    this.#retryAt = Math.max(this.#retryAt, this.#clock.monotonic() + Math.min(MAX_RETRY_AFTER_MS, ms))
  }
}
