// A strict fake of the engine's API on a socket of its own: it accepts the requests that the executor makes, responds to
// anything else with 400, and injects the faults that tests ask for.

import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { mkdtemp, rm } from "node:fs/promises"
import type { Socket } from "node:net"
import type { Writable } from "node:stream"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Fault {
  /** `POST /containers/create` */
  on: string
  times: number
  /** drop: the connection breaks after the request was carried out. cut: it breaks in the response. */
  response: { status: number; message: string } | "drop" | "cut"
}

export interface FakeContainer {
  id: string
  name: string
  labels: { [label: string]: string }
  status: "created" | "running" | "exited"
  exitCode: number
  starts: number
  signals: string[]
  /** Whether the engine recorded an event of a kill. */
  killed?: boolean
}

export class FakeEngine {
  readonly containers = new Map<string, FakeContainer>()
  readonly images = new Set(["there:latest"])
  readonly pullable = new Set<string>()
  readonly requests: string[] = []
  faults: Fault[] = []
  log: Buffer = Buffer.alloc(0)
  /** Bytes of the log after which the next connections break. */
  breaks: number[] = []
  apiVersion = "1.43"
  minVersion = "1.24"
  #endListeners = new Map<string, (() => void)[]>()
  #folder = ""
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((request, response) => void this.#handle(request, response))

  async start(): Promise<string> {
    this.#folder = await mkdtemp(join(tmpdir(), "ork-engine-"))
    this.#server.on("upgrade", (request, socket: Socket) => {
      this.requests.push(this.#name(request))
      socket.on("error", () => {})
      socket.write("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
      socket.resume()
      this.#sendLog(this.#find(new URL(request.url ?? "", "http://engine"))!, socket)
    })
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on("close", () => this.#sockets.delete(socket))
    })
    await this.comeBack()
    return `unix://${join(this.#folder, "sock")}`
  }

  /** Breaks all connections and accepts no others; containers live on. */
  async goAway(): Promise<void> {
    const closed = once(this.#server, "close")
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
    this.#endListeners.clear()
  }

  async comeBack(): Promise<void> {
    this.#server.listen(join(this.#folder, "sock"))
    await once(this.#server, "listening")
  }

  /** Breaks all connections, as a proxy with an idle timeout does. */
  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Lets a container end by itself. */
  end(id: string, exitCode: number): void {
    const container = this.containers.get(id)!
    Object.assign(container, { status: "exited", exitCode })
    for (const listener of this.#endListeners.get(id) ?? []) listener()
    this.#endListeners.delete(id)
  }

  #name({ method, url }: IncomingMessage): string {
    const path = (url ?? "").split("?")[0]!.replace(/^\/v[\d.]+/, "")
    return `${method} ${path.replace(/\/containers\/(?!create|json)[^/]+/, "/containers/ID")}`
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = this.#name(request)
    this.requests.push(name)
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const fault = this.faults.find(({ on, times }) => on === name && times > 0)
    if (fault !== undefined) fault.times--
    if (fault?.response === "cut") {
      response.writeHead(200, { "content-type": "application/json" })
      return void response.write("{", () => request.socket.destroy())
    }
    if (fault !== undefined && fault.response !== "drop") return reject(response, fault.response.status, fault.response.message)
    const url = new URL(request.url ?? "", "http://engine")
    const body = pieces.length === 0 ? null : (JSON.parse(Buffer.concat(pieces).toString()) as CreateBody)
    if (fault !== undefined) {
      this.#serve(name, url, body, null)
      request.socket.destroy()
      return
    }
    this.#serve(name, url, body, response)
  }

  #serve(name: string, url: URL, body: CreateBody | null, response: ServerResponse | null): void {
    const container = this.#find(url)
    switch (name) {
      case "GET /version":
        return json(response, 200, { Version: "24.0.7", ApiVersion: this.apiVersion, MinAPIVersion: this.minVersion })
      case "GET /containers/json":
        return json(
          response,
          200,
          [...this.containers.values()].map(({ id, labels }) => ({ Id: id, Labels: labels })),
        )
      case "GET /events":
        response?.writeHead(200, { "content-type": "application/json" })
        response?.end(this.#killEvents(url.searchParams))
        return
      case "POST /images/create":
        return this.#pull(url.searchParams.get("fromImage") ?? "", response)
      case "POST /containers/create":
        return this.#create(url.searchParams.get("name") ?? "", body, response)
    }
    if (container === undefined) return reject(response, 404, "No such container")
    switch (name) {
      case "GET /containers/ID/json":
        return json(response, 200, {
          Id: container.id,
          Config: { Labels: container.labels },
          State: {
            Status: container.status,
            ExitCode: container.exitCode,
            OOMKilled: false,
            Error: "",
            FinishedAt: FINISHED_AT,
          },
        })
      case "POST /containers/ID/start":
        container.starts++
        if (container.status === "created") container.status = "running"
        return json(response, 204, null)
      case "POST /containers/ID/wait":
        return this.#onEnd(container, () => json(response, 200, { StatusCode: container.exitCode }))
      case "POST /containers/ID/kill":
        if (container.status !== "running") return reject(response, 409, "is not running")
        container.signals.push(url.searchParams.get("signal") ?? "")
        if (container.signals.at(-1) === "SIGKILL") this.end(container.id, 137)
        return json(response, 204, null)
      case "GET /containers/ID/logs":
        response?.writeHead(200, { "content-type": "application/vnd.docker.raw-stream" })
        if (response === null) return
        if (url.searchParams.get("follow") !== "true") return void response.end(this.log)
        return this.#sendLog(container, response)
      case "DELETE /containers/ID":
        this.containers.delete(container.id)
        return json(response, 204, null)
      default:
        return reject(response, 400, `unexpected ${name}`)
    }
  }

  #killEvents(query: URLSearchParams): string {
    const { container, event } = JSON.parse(query.get("filters") ?? "{}") as { container?: string[]; event?: string[] }
    if (event?.join() !== "kill" || Number(query.get("until")) < Date.parse(FINISHED_AT) / 1000) return ""
    return this.containers.get(container?.join() ?? "")?.killed === true ? '{"Action":"kill"}\n{"Action":"kill"}\n' : ""
  }

  #find(url: URL): FakeContainer | undefined {
    const key = /\/containers\/([^/]+)/.exec(url.pathname)?.[1]
    return [...this.containers.values()].find(({ id, name }) => id === key || name === key)
  }

  #pull(image: string, response: ServerResponse | null): void {
    response?.writeHead(200, { "content-type": "application/json" })
    response?.write('{"status":"Pulling"}\n')
    if (this.pullable.has(image)) this.images.add(image)
    else response?.write(JSON.stringify({ error: `manifest for ${image} not found: manifest unknown` }))
    response?.end()
  }

  #create(name: string, body: CreateBody | null, response: ServerResponse | null): void {
    const { Image = "", Labels = {}, HostConfig } = body ?? {}
    if (HostConfig === undefined || name === "") return reject(response, 400, "bad parameter")
    if (!this.images.has(Image.includes(":") ? Image : `${Image}:latest`))
      return reject(response, 404, `No such image: ${Image}`)
    if ([...this.containers.values()].some((other) => other.name === name))
      return reject(response, 409, "Conflict: name in use")
    const id = `c${this.containers.size}`.padEnd(64, "0")
    this.containers.set(id, { id, name, labels: Labels, status: "created", exitCode: 0, starts: 0, signals: [] })
    json(response, 201, { Id: id })
  }

  #sendLog(container: FakeContainer, to: Writable): void {
    const breakAt = this.breaks.shift()
    to.write(this.log.subarray(0, breakAt), () => {
      if (breakAt !== undefined) to.destroy()
    })
    if (breakAt === undefined) this.#onEnd(container, () => to.end())
  }

  #onEnd({ id, status }: FakeContainer, listener: () => void): void {
    if (status === "exited") listener()
    else this.#endListeners.set(id, [...(this.#endListeners.get(id) ?? []), listener])
  }
}

const FINISHED_AT = "2026-01-01T00:00:00.123456789Z"

interface CreateBody {
  Image?: string
  Labels?: { [label: string]: string }
  HostConfig?: object
}

const json = (response: ServerResponse | null, status: number, body: unknown): void => {
  response?.writeHead(status, { "content-type": "application/json" })
  response?.end(body === null ? undefined : JSON.stringify(body))
}

const reject = (response: ServerResponse | null, status: number, message: string): void => json(response, status, { message })
