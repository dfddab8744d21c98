// The worker's way to its servers: one request at a time is tried at one address; one that does not answer is left for the next. Whoever
// calls decides whether to try again; `forever` does, with growing waits.

import { createWriteStream } from "node:fs"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { readServerError, ServerError } from "./server-error.ts"
import { sleep } from "./sleep.ts"
import type { Clock, Random } from "../../core/model/ports.ts"

export interface ServerClientOptions {
  /** Addresses, without a slash at the end. */
  servers: readonly string[]
  clock: Clock
  random: Random
  fetch: typeof fetch
}

export interface ServerRequest {
  method?: "GET" | "POST" | "DELETE"
  /** Below /api/v1. */
  path: string
  key: string
  body?: unknown
  bytes?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Record<string, string>
  signal?: AbortSignal
  timeoutMs?: number
}

const TIMEOUT_MS = 30_000
const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5000

export class ServerClient {
  readonly #options: ServerClientOptions
  #at = 0

  constructor(options: ServerClientOptions) {
    this.#options = options
  }

  get server(): string {
    const { servers } = this.#options
    return servers[this.#at % servers.length]!
  }

  get serverCount(): number {
    return this.#options.servers.length
  }

  /** This server is of no use now. */
  useNextServer(): void {
    this.#leave(this.server)
  }

  json<T>(request: ServerRequest): Promise<T> {
    return this.#read(request, async (answer) => (answer.status === 204 ? undefined : await answer.json()) as T)
  }

  bytes(request: ServerRequest): Promise<Buffer> {
    return this.#read(request, async (answer) => Buffer.from(await answer.arrayBuffer()))
  }

  /** The answer goes to a file, however large it is. */
  download(request: ServerRequest, path: string): Promise<void> {
    return this.#read(request, async ({ body }) => {
      await pipeline(body === null ? [] : Readable.fromWeb(body), createWriteStream(path))
    })
  }

  /** An answer that breaks off is none. */
  async #read<T>(request: ServerRequest, read: (answer: Response) => Promise<T>): Promise<T> {
    const { server } = this
    const answer = await this.#open(request)
    try {
      return await read(answer)
    } catch (error) {
      throw this.#unreachable(server, error)
    }
  }

  /** A successful answer whose body is still to be read. */
  async #open({ method = "POST", path, key, body, bytes, headers, signal, timeoutMs }: ServerRequest): Promise<Response> {
    const { server } = this
    const late = AbortSignal.timeout(timeoutMs ?? TIMEOUT_MS)
    const type = bytes === undefined ? "application/json" : "application/octet-stream"
    const sent = bytes ?? (body === undefined ? undefined : JSON.stringify(body))
    let answer: Response
    try {
      answer = await this.#options.fetch(`${server}/api/v1${path}`, {
        method,
        headers: { "x-api-key": key, ...(sent !== undefined && { "content-type": type }), ...headers },
        redirect: "manual",
        signal: signal === undefined ? late : AbortSignal.any([late, signal]),
        ...(sent !== undefined && { body: sent as NonNullable<RequestInit["body"]> }),
        ...(sent instanceof ReadableStream && { duplex: "half" }),
      })
    } catch (error) {
      throw this.#unreachable(server, error)
    }
    if (answer.ok) return answer
    const error = await readServerError(answer)
    if (error.transient) this.#leave(server)
    throw error
  }

  /** Until it works, is refused for good, or is given up. Says what goes wrong the first time. */
  async withRetries<T>(work: () => Promise<T>, signal: AbortSignal, trouble: (error: ServerError) => void): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof ServerError) || !error.transient || signal.aborted) throw error
        if (failures === 0) trouble(error)
        await this.backOff(failures, signal)
      }
    }
  }

  /** Longer after each failure, 50 to 100 % of it by chance; ends early when aborted. */
  backOff(failures: number, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options
    const ms = Math.min(FIRST_WAIT_MS * 2 ** failures, MAX_WAIT_MS) * (0.5 + random.next() / 2)
    return sleep(clock, ms, signal)
  }

  #unreachable(server: string, error: unknown): ServerError {
    this.#leave(server)
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
    return new ServerError(null, `${server} does not answer: ${cause}`)
  }

  #leave(server: string): void {
    if (this.server === server) this.#at = (this.#at + 1) % this.#options.servers.length
  }
}
