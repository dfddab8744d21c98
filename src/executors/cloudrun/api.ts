// Cloud Run's Admin API by Google's client in its REST mode: five calls, each sent once and with a time limit; callers decide
// about retries. When the service asks to wait (429 or 503 with Retry-After), all calls wait.

import { ExecutionsClient, JobsClient, TasksClient } from "@google-cloud/run"
import { type AuthClient, GoogleAuth, PassThroughClient } from "google-auth-library"
import type { Clock } from "../../core/model/ports.ts"
import { delay } from "../remote/retry.ts"
import { withTimeout } from "../timeout.ts"
import { errorOf, isStatus, TIMED_OUT } from "./api-error.ts"
import type { Execution, ExecutionName, JobName, RunRequest, Task } from "./shapes.ts"

const CALL_MS = 30_000
/** Time for credentials, which the client fetches without a limit before its own one counts. */
const LOGIN_MS = 30_000
export const PAGE = 100
/** Cloud Run keeps the newest 1,000 executions for more than a week. */
export const MAX_PAGES = 10
export const SCOPE = "https://www.googleapis.com/auth/cloud-platform"
const MAX_RETRY_AFTER_MS = 60_000

export interface ApiOptions {
  clock: Clock
  /** Another address than Google's own, called without credentials if it is without TLS. Empty for Google's. */
  endpoint: string
}

export class CloudRunApi {
  readonly #clock: Clock
  readonly #jobs: JobsClient
  readonly #executions: ExecutionsClient
  readonly #tasks: TasksClient
  #retryAt = 0

  constructor({ clock, endpoint }: ApiOptions) {
    this.#clock = clock
    const authClient = new RetryAfterClient(endpoint, (ms) => this.#pause(ms))
    const options = { fallback: true as const, authClient, ...addressOf(endpoint) }
    this.#jobs = new JobsClient(options)
    this.#executions = new ExecutionsClient(options)
    this.#tasks = new TasksClient(options)
  }

  /** Starts an execution, whose fields may be missing in the response. Resolves with null when aborted before the call. */
  async run(request: RunRequest, signal: AbortSignal): Promise<Execution | null> {
    await this.#untilAllowed(signal)
    if (signal.aborted) return null
    const [operation] = await this.#call(() => this.#jobs.runJob(request, { timeout: CALL_MS }))
    return (operation.metadata as Execution | null | undefined) ?? {}
  }

  async get(name: ExecutionName): Promise<Execution> {
    const [execution] = await this.#call(() => this.#executions.getExecution({ name }, { timeout: CALL_MS }))
    return execution
  }

  /** Newest first. */
  async list(parent: JobName, pageToken: string): Promise<{ executions: Execution[]; next: string }> {
    const request = { parent, pageSize: PAGE, pageToken }
    const [executions, , response] = await this.#call(() =>
      this.#executions.listExecutions(request, { timeout: CALL_MS, autoPaginate: false }),
    )
    return { executions, next: response?.nextPageToken ?? "" }
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
    await this.#call(() => this.#executions.cancelExecution({ name }, { timeout: CALL_MS }))
  }

  async task(parent: ExecutionName): Promise<Task | null> {
    const [tasks] = await this.#call(() =>
      this.#tasks.listTasks({ parent, pageSize: 1 }, { timeout: CALL_MS, autoPaginate: false }),
    )
    return tasks[0] ?? null
  }

  async close(): Promise<void> {
    await Promise.all([this.#jobs, this.#executions, this.#tasks].map((client) => client.close().catch(() => {})))
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    await this.#untilAllowed()
    try {
      return await withTimeout(call(), CALL_MS + LOGIN_MS, TIMED_OUT)
    } catch (error) {
      throw errorOf(error)
    }
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

/**
 * Sends the requests of Google's client and reads Retry-After, which the client does not show. Credentials are fetched in the
 * requests alone: otherwise missing ones end the process, by promises of the client that nobody awaits.
 */
class RetryAfterClient extends PassThroughClient {
  readonly #auth: GoogleAuth | null
  readonly #onRetryAfter: (ms: number) => void

  constructor(endpoint: string, onRetryAfter: (ms: number) => void) {
    super()
    this.#auth = endpoint.startsWith("http:") ? null : new GoogleAuth({ scopes: SCOPE })
    this.#onRetryAfter = onRetryAfter
  }

  override async fetch<T>(...args: Parameters<AuthClient["fetch"]>): ReturnType<typeof GoogleAuth.prototype.fetch<T>> {
    const response = this.#auth === null ? await super.fetch<T>(...args) : await this.#auth.fetch<T>(...args)
    const seconds = Number(response.headers.get("retry-after") ?? "")
    if (Number.isFinite(seconds) && (response.status === 429 || response.status === 503)) this.#onRetryAfter(seconds * 1000)
    return response
  }
}

const addressOf = (endpoint: string) => {
  if (endpoint === "") return {}
  const { protocol, hostname, port } = new URL(endpoint)
  const plain = protocol === "http:"
  return { apiEndpoint: hostname, port: port === "" ? (plain ? 80 : 443) : Number(port), protocol: plain ? "http" : "https" }
}
