// Cloud Run's Admin API through Google's client in its REST mode: five calls, each sent once and ended after a time; whoever calls
// decides about trying again. When the service says to wait (429 or 503 with Retry-After), all calls do.

import { ExecutionsClient, JobsClient, TasksClient } from "@google-cloud/run"
import { type AuthClient, GoogleAuth, PassThroughClient } from "google-auth-library"
import type { Clock } from "../../core/model/ports.ts"
import { delay } from "../remote/pacing.ts"
import { errorOf } from "./api-error.ts"
import { inTime } from "./in-time.ts"
import type { Execution, ExecutionName, JobName, RunRequest, Task } from "./shapes.ts"

const CALL_MS = 30_000
/** For credentials, which are fetched before. */
const LOGIN_MS = 30_000
export const PAGE = 100
export const SCOPE = "https://www.googleapis.com/auth/cloud-platform"
/** No answer may hold us up for longer. */
const MAX_RETRY_AFTER_MS = 60_000

export interface ApiOptions {
  clock: Clock
  /** Another address than Google's own; one without TLS is asked without credentials. Empty: Google's. */
  endpoint: string
}

export class CloudRunApi {
  readonly #clock: Clock
  readonly #jobs: JobsClient
  readonly #executions: ExecutionsClient
  readonly #tasks: TasksClient
  #restUntil = 0

  constructor({ clock, endpoint }: ApiOptions) {
    this.#clock = clock
    const options = { fallback: true as const, authClient: new Sender(endpoint, (ms) => this.#rest(ms)), ...placeOf(endpoint) }
    this.#jobs = new JobsClient(options)
    this.#executions = new ExecutionsClient(options)
    this.#tasks = new TasksClient(options)
  }

  /** Gives the new execution, as far as the answer tells. null: told to stop before anything was sent. */
  async run(request: RunRequest, signal: AbortSignal): Promise<Execution | null> {
    await this.#rested(signal)
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
    const [executions, , answer] = await this.#call(() =>
      this.#executions.listExecutions(request, { timeout: CALL_MS, autoPaginate: false }),
    )
    return { executions, next: answer?.nextPageToken ?? "" }
  }

  /** Its end is told by the execution. */
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
    await this.#rested()
    try {
      return await inTime(call(), CALL_MS + LOGIN_MS)
    } catch (error) {
      throw errorOf(error)
    }
  }

  /** As long as the service has asked for; ends early when the signal does. */
  async #rested(signal?: AbortSignal): Promise<void> {
    for (let left = this.#left(); left > 0 && signal?.aborted !== true; left = this.#left())
      await delay(this.#clock, left, signal)
  }

  #left(): number {
    return this.#restUntil - this.#clock.now()
  }

  #rest(ms: number): void {
    this.#restUntil = Math.max(this.#restUntil, this.#clock.now() + Math.min(MAX_RETRY_AFTER_MS, ms))
  }
}

/**
 * Sends the client's requests: it does not show the headers of answers, which tell how long to wait. And it lets credentials that are
 * missing end the process, by promises of its own that nobody awaits, unless they are looked for in the requests alone.
 */
class Sender extends PassThroughClient {
  readonly #auth: GoogleAuth | null
  readonly #asked: (ms: number) => void

  constructor(endpoint: string, asked: (ms: number) => void) {
    super()
    this.#auth = endpoint.startsWith("http:") ? null : new GoogleAuth({ scopes: SCOPE })
    this.#asked = asked
  }

  override async fetch<T>(...args: Parameters<AuthClient["fetch"]>): ReturnType<typeof GoogleAuth.prototype.fetch<T>> {
    const answer = this.#auth === null ? await super.fetch<T>(...args) : await this.#auth.fetch<T>(...args)
    const seconds = Number(answer.headers.get("retry-after") ?? "")
    if (Number.isFinite(seconds) && (answer.status === 429 || answer.status === 503)) this.#asked(seconds * 1000)
    return answer
  }
}

const placeOf = (endpoint: string) => {
  if (endpoint === "") return {}
  const { protocol, hostname, port } = new URL(endpoint)
  const plain = protocol === "http:"
  return { apiEndpoint: hostname, port: port === "" ? (plain ? 80 : 443) : Number(port), protocol: plain ? "http" : "https" }
}
