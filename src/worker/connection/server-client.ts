// Sends the worker's requests to its servers. A request goes to one server; after a failure the next request goes to the next one.
// Callers decide whether to retry; `withRetries` retries with growing delays.

import { createWriteStream } from "node:fs"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { isTransient } from "./server-error.ts"
import { sleep } from "../../sleep.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { Logger } from "../../engine/ports.ts"
import { ClientError, unreachable } from "../../protocol/client/errors.ts"
import { type Request, Transport } from "../../protocol/client/transport.ts"

export interface ServerClientOptions {
  /** Addresses without a trailing slash. */
  servers: readonly string[]
  clock: Clock
  random: Random
  log: Logger
  fetch: typeof fetch
}

export interface ServerRequest extends Omit<Request, "query" | "text" | "repeatable"> {
  key: string
  /** Time until the end of the response. */
  timeoutMs?: number
}

const TIMEOUT_MS = 30_000
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 5000

export class ServerClient {
  readonly #options: ServerClientOptions
  #current = 0

  constructor(options: ServerClientOptions) {
    this.#options = options
  }

  get server(): string {
    const { servers } = this.#options
    return servers[this.#current % servers.length]!
  }

  get serverCount(): number {
    return this.#options.servers.length
  }

  useNextServer(): void {
    this.#leave(this.server)
  }

  json<T>(request: ServerRequest): Promise<T> {
    return this.#read(request, async (response) => (response.status === 204 ? undefined : await response.json()) as T)
  }

  bytes(request: ServerRequest): Promise<Buffer> {
    return this.#read(request, async (response) => Buffer.from(await response.arrayBuffer()))
  }

  /** Streams the response into a file. */
  download(request: ServerRequest, path: string): Promise<void> {
    return this.#read(request, async ({ body }) => {
      await pipeline(body === null ? [] : Readable.fromWeb(body), createWriteStream(path))
    })
  }

  /** Treats a response that breaks off like no response. */
  async #read<T>(request: ServerRequest, read: (response: Response) => Promise<T>): Promise<T> {
    const { server } = this
    const response = await this.#open(request)
    try {
      return await read(response)
    } catch (error) {
      this.#leave(server)
      throw unreachable(server, error)
    }
  }

  /** Returns a successful response whose body is still to be read. */
  async #open({ key, timeoutMs = TIMEOUT_MS, signal, ...request }: ServerRequest): Promise<Response> {
    const { server } = this
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      return await new Transport({ url: server, key, fetch: this.#options.fetch, retries: 0, timeoutMs }).open({
        method: "POST",
        ...request,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      })
    } catch (error) {
      if (error instanceof ClientError && isTransient(error)) this.#leave(server)
      throw error
    }
  }

  /** Retries until the request succeeds, is rejected, or `signal` aborts. Logs the first failure with its purpose. */
  async withRetries<T>(purpose: string, signal: AbortSignal, request: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await request()
      } catch (error) {
        if (!(error instanceof ClientError) || !isTransient(error) || signal.aborted) throw error
        if (failures === 0) this.#options.log.warn({ purpose, error: error.message }, "a request failed; trying all servers")
        await this.backOff(failures, signal)
      }
    }
  }

  /** Sleeps longer after each failure, with a jitter of 50 to 100 %; ends early when `signal` aborts. */
  backOff(failures: number, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options
    const ms = Math.min(FIRST_DELAY_MS * 2 ** failures, MAX_DELAY_MS) * (0.5 + random.next() / 2)
    return sleep(clock, ms, signal)
  }

  /** Moves to the next server, unless another request has already done so. */
  #leave(server: string): void {
    if (this.server === server) this.#current = (this.#current + 1) % this.#options.servers.length
  }
}
