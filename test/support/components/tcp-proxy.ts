// A TCP proxy in front of a server, which breaks connections in the ways that networks do.

import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { setTimeout as delay } from "node:timers/promises"

/** One connection through the proxy. `dead`: nothing passes, and nobody is told. `deaf`: replies are lost. */
interface Link {
  client: Socket
  server: Socket
  state: "passing" | "deaf" | "dead"
}

export class TcpProxy {
  readonly port: number
  readonly #listener: Server
  readonly #links = new Set<Link>()
  #latencyMs = 0
  #silent = false

  private constructor(listener: Server) {
    this.#listener = listener
    this.port = (listener.address() as AddressInfo).port
  }

  /** Starts a proxy for a port of this machine. */
  static async start(targetPort: number): Promise<TcpProxy> {
    const listener = createServer().listen(0, "127.0.0.1")
    await once(listener, "listening")
    const proxy = new TcpProxy(listener)
    listener.on("connection", (client) => proxy.#connect(client, targetPort))
    return proxy
  }

  /** Closes every connection. */
  cut(): void {
    for (const { client } of this.#links) client.destroy()
  }

  /** Leaves the connections half open: neither side hears of the other again. New connections pass. */
  halfOpen(): void {
    for (const link of this.#links) link.state = "dead"
  }

  /** Delivers requests, loses the replies, and closes the connections after `ms`. New connections pass. */
  loseReplies(ms: number): void {
    const lost = [...this.#links]
    for (const link of lost) link.state = "deaf"
    setTimeout(() => {
      for (const { client } of lost) client.destroy()
    }, ms).unref()
  }

  /** Delays everything that passes, in each direction. */
  slow(ms: number): void {
    this.#latencyMs = ms
  }

  /** While silent, new connections are accepted and nothing passes. Connections of that time stay dead. */
  setSilent(silent: boolean): void {
    this.#silent = silent
    if (silent) this.halfOpen()
  }

  async stop(): Promise<void> {
    this.#listener.close()
    this.cut()
    await once(this.#listener, "close")
  }

  #connect(client: Socket, targetPort: number): void {
    const server = connect(targetPort, "127.0.0.1")
    const link: Link = { client, server, state: this.#silent ? "dead" : "passing" }
    this.#links.add(link)
    const forward = (from: Socket, to: Socket, passes: () => boolean): void => {
      let delivered = Promise.resolve()
      from.on("data", (data) => {
        delivered = delivered.then(async () => {
          if (this.#latencyMs > 0) await delay(this.#latencyMs)
          if (passes() && !to.destroyed) to.write(data)
        })
      })
      from.on("error", () => {})
      from.on("close", () => {
        if (link.state !== "dead" || from === client) to.destroy()
      })
    }
    forward(client, server, () => link.state !== "dead")
    forward(server, client, () => link.state === "passing")
    client.on("close", () => this.#links.delete(link))
  }
}
