// Faults of a Postgres behind a proxy: restarts, and connections that are cut, half open or slow, or lose replies.

import { setTimeout as delay } from "node:timers/promises"
import type { Rng } from "../../sim/rng.ts"
import { type PostgresServer, startPostgres } from "../../support/components/postgres-server.ts"
import { TcpProxy } from "../../support/components/tcp-proxy.ts"

const FAULTS = ["cut", "half open", "lost replies", "slow", "silent"] as const

export class FaultyPostgres {
  readonly #server: PostgresServer
  readonly #proxy: TcpProxy
  readonly counts: Record<string, number> = {}

  private constructor(server: PostgresServer, proxy: TcpProxy) {
    this.#server = server
    this.#proxy = proxy
  }

  static async start(): Promise<FaultyPostgres> {
    const server = await startPostgres()
    return new FaultyPostgres(server, await TcpProxy.start(Number(new URL(server.url).port)))
  }

  /** The address through the proxy. */
  get url(): string {
    const url = new URL(this.#server.url)
    url.port = String(this.#proxy.port)
    return url.href
  }

  /** The address without the proxy. */
  get directUrl(): string {
    return this.#server.url
  }

  /** Resolves when Postgres accepts connections again. */
  async restart(rng: Rng): Promise<void> {
    this.#count("restart")
    await this.#server.restart({ signal: rng.pick(["INT", "QUIT"]), downSeconds: rng.pick([0, 0.5, 1, 3]) })
  }

  /** Disturbs the connections in one way; resolves with its name when new connections work. */
  async disturb(rng: Rng): Promise<string> {
    const fault = rng.pick(FAULTS)
    this.#count(fault)
    await this.#break(fault, rng)
    return fault
  }

  async #break(fault: (typeof FAULTS)[number], rng: Rng): Promise<void> {
    const ms = rng.int(200, 2000)
    switch (fault) {
      case "cut":
        return this.#proxy.cut()
      case "half open":
        return this.#proxy.halfOpen()
      case "lost replies":
        return this.#proxy.loseReplies(ms)
      case "slow":
        this.#proxy.slow(rng.int(10, 100))
        await delay(ms)
        return this.#proxy.slow(0)
      case "silent":
        this.#proxy.setSilent(true)
        await delay(ms)
        return this.#proxy.setSilent(false)
      default:
        return fault satisfies never
    }
  }

  async stop(): Promise<void> {
    await this.#proxy.stop()
    await this.#server.stop()
  }

  #count(fault: string): void {
    this.counts[fault] = (this.counts[fault] ?? 0) + 1
  }
}
