// A strict stand-in for a cluster's API server, over HTTP: it knows the requests that the executor may make, refuses everything else, checks
// bodies by the published types, runs pods as real processes, and does what a test tells it to do wrong.

import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Controllers } from "./controllers.ts"
import { LogServer } from "./log-server.ts"
import { isAllowed, matches, problemsOf, QUERIES } from "./rules.ts"
import { type ApiObject, type Kind, ObjectStorage, type StoreEvent } from "./store.ts"

export interface Fault {
  /** `POST jobs`, `WATCH pods`, `LIST jobs`, `LOG pods`, `DELETE jobs`, … */
  on: string
  times: number
  /** drop: no answer; lose: it is carried out, and the answer lost. */
  answer: { status: number; reason?: string; message?: string; retryAfter?: number } | "drop" | "lose"
}

interface Call {
  verb: string
  kind: Kind
  namespace: string
  name: string | undefined
  query: URLSearchParams
}

interface Watcher {
  kind: Kind
  response: ServerResponse
  take(event: StoreEvent): void
}

const TOKEN = "test-token"
const PATH = /^\/(?:api\/v1|apis\/batch\/v1)\/namespaces\/([^/]+)\/(jobs|pods|secrets|events)(?:\/([^/]+))?(\/log)?$/
const BATCH = new Set<string>(["jobs"])

export class FakeCluster {
  readonly storage = new ObjectStorage()
  readonly controllers = new Controllers(this.storage)
  readonly logs = new LogServer(this.controllers)
  /** Each as `VERB kind`, in order. */
  readonly requests: string[] = []
  readonly refused: string[] = []
  faults: Fault[] = []
  /** Events come twice, and pairs of them in the wrong order. */
  unruly = false
  /** Nothing is sent to watches. */
  mute = false
  /** A slow watch: events wait until they are let go. */
  held: (() => void)[] | null = null
  kubeconfig = ""
  #folder = ""
  readonly #watchers = new Set<Watcher>()
  readonly #server = createServer((request, response) => void this.#handle(request, response))

  async start(): Promise<this> {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    const { port } = this.#server.address() as AddressInfo
    this.#folder = mkdtempSync(join(tmpdir(), "ork-cluster-"))
    this.kubeconfig = join(this.#folder, "kubeconfig")
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "fake",
      contexts: [{ name: "fake", context: { cluster: "fake", user: "ork", namespace: "work" } }],
      clusters: [{ name: "fake", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
      users: [{ name: "ork", user: { token: TOKEN } }],
    }
    writeFileSync(this.kubeconfig, JSON.stringify(config))
    this.storage.listen((event) => {
      for (const watcher of this.#watchers) watcher.take(event)
    })
    return this
  }

  async stop(): Promise<void> {
    this.controllers.stop()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  count(request: string): number {
    return this.requests.filter((one) => one === request).length
  }

  jobs(): ApiObject[] {
    return this.storage.list("jobs", "work")
  }

  /** Watches under way break off. */
  dropWatches(): void {
    for (const { response } of this.#watchers) response.destroy()
  }

  /** The past is forgotten, and watches under way are told so. */
  expireWatches(): void {
    this.storage.forget()
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" }
    for (const { response } of this.#watchers) response.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`)
  }

  letGo(): void {
    const waiting = this.held ?? []
    this.held = null
    for (const send of waiting) send()
  }

  bookmark(): void {
    for (const { response, kind } of this.#watchers) {
      const object = { kind, metadata: { resourceVersion: String(this.storage.version) } }
      response.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`)
    }
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const call = parse(request)
    if (call === null) return this.#refuse(response, 404, "NotFound", `no such path: ${request.url}`)
    const name = `${call.verb} ${call.kind}`
    this.requests.push(name)
    const fault = this.faults.find(({ on, times }) => on === name && times > 0)
    if (fault !== undefined) fault.times -= 1
    if (fault?.answer === "drop") return void request.socket.destroy()
    if (fault !== undefined && fault.answer !== "lose") {
      const { status, reason = "", message = "injected", retryAfter } = fault.answer
      if (retryAfter !== undefined) response.setHeader("retry-after", retryAfter)
      return answer(response, status, { kind: "Status", status: "Failure", code: status, reason, message })
    }
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return this.#refuse(response, 401, "Unauthorized", "Unauthorized")
    if (!isAllowed(call.verb, call.kind)) return this.#refuse(response, 403, "Forbidden", `${name} is forbidden`)
    const unknown = [...call.query.keys()].filter((key) => !(QUERIES[call.verb] ?? []).includes(key))
    if (unknown.length > 0) return this.#refuse(response, 400, "BadRequest", `unknown parameters of ${name}: ${unknown.join()}`)
    const body = pieces.length === 0 ? null : (JSON.parse(Buffer.concat(pieces).toString()) as object)
    if (fault?.answer === "lose") {
      this.#answer(call, body, null)
      request.socket.destroy()
    } else this.#answer(call, body, response)
  }

  #answer(call: Call, body: object | null, response: ServerResponse | null): void {
    const { kind, namespace, name, query } = call
    const object = name === undefined ? undefined : this.storage.get(kind, namespace, name)
    if (name !== undefined && object === undefined)
      return this.#refuse(response, 404, "NotFound", `${kind} "${name}" not found`)
    switch (`${call.verb} ${kind}`) {
      case "LIST jobs":
      case "LIST pods":
      case "LIST events":
        return this.#list(call, response)
      case "WATCH jobs":
      case "WATCH pods":
        return response === null ? undefined : this.#watch(call, response)
      case "POST jobs":
      case "POST secrets":
        return this.#create(call, body ?? {}, response)
      case "GET jobs":
        return answer(response, 200, object)
      case "LOG pods":
        return response === null ? undefined : this.logs.serve(object!, query, response)
      case "DELETE jobs":
        void this.controllers.deleteJob(object!, query.get("propagationPolicy"))
        return answer(response, 200, this.storage.get(kind, namespace, name!) ?? object)
      default:
        return this.#refuse(response, 405, "MethodNotAllowed", `${call.verb} of ${kind} is not known here`)
    }
  }

  #create({ kind, namespace, query }: Call, body: object, response: ServerResponse | null): void {
    if (query.get("fieldValidation") !== "Strict") return this.#refuse(response, 400, "BadRequest", "not strict")
    const { decode, validate } = problemsOf(kind, body)
    if (decode.length > 0) return this.#refuse(response, 400, "BadRequest", `strict decoding error: ${decode.join(", ")}`)
    if (validate.length > 0) return this.#refuse(response, 422, "Invalid", `${kind} is invalid: ${validate.join(", ")}`)
    const given = body as { metadata: { name: string; [field: string]: unknown }; [field: string]: unknown }
    const made = this.storage.add(kind, namespace, given)
    if (made !== null) return answer(response, 201, made)
    const status = {
      kind: "Status",
      code: 409,
      reason: "AlreadyExists",
      message: `${kind} "${given.metadata.name}" already exists`,
    }
    answer(response, 409, status)
  }

  #list({ kind, namespace, query }: Call, response: ServerResponse | null): void {
    const selector = query.get("labelSelector")
    const about = /^involvedObject\.name=([^,]+),type=Warning$/.exec(query.get("fieldSelector") ?? "")?.[1]
    const all = this.storage
      .list(kind, namespace)
      .filter(({ metadata }) => selector === null || matches(selector, metadata.labels))
      .filter(({ involvedObject }) => about === undefined || involvedObject?.name === about)
    const from = Number(query.get("continue") ?? 0)
    const to = from + Number(query.get("limit") ?? all.length)
    const metadata = { resourceVersion: String(this.storage.version), ...(to < all.length && { continue: String(to) }) }
    answer(response, 200, { kind: "List", metadata, items: all.slice(from, to) })
  }

  #watch({ kind, namespace, query }: Call, response: ServerResponse): void {
    const past = this.storage.since(Number(query.get("resourceVersion")))
    if (past === null) return this.#gone(response)
    response.writeHead(200, { "content-type": "application/json" })
    response.flushHeaders()
    const selector = query.get("labelSelector") ?? ""
    let held: string | null = null
    const write = (line: string): void => {
      if (this.held !== null) return void this.held.push(() => write(line))
      if (!this.unruly) return void response.write(line)
      // Two events are sent the later first, and each twice.
      if (held === null) held = line
      else {
        response.write(line + held + line + held)
        held = null
      }
    }
    const flush = setInterval(() => {
      if (held !== null) response.write(held)
      held = null
    }, 10)
    const watcher: Watcher = {
      kind,
      response,
      take: (event) => {
        if (this.mute || event.kind !== kind || event.object.metadata.namespace !== namespace) return
        if (matches(selector, event.object.metadata.labels))
          write(`${JSON.stringify({ type: event.type, object: event.object })}\n`)
      },
    }
    for (const event of past) watcher.take(event)
    this.#watchers.add(watcher)
    response.on("close", () => {
      clearInterval(flush)
      this.#watchers.delete(watcher)
    })
  }

  #gone(response: ServerResponse): void {
    answer(response, 410, { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" })
  }

  #refuse(response: ServerResponse | null, code: number, reason: string, message: string): void {
    this.refused.push(`${code} ${message}`)
    answer(response, code, { kind: "Status", status: "Failure", code, reason, message })
  }
}

const parse = ({ method = "", url = "" }: IncomingMessage): Call | null => {
  const { pathname, searchParams: query } = new URL(url, "http://cluster")
  const match = PATH.exec(pathname)
  if (match === null) return null
  const [, namespace = "", kind = "", name, log] = match
  if (pathname.startsWith("/apis/batch") !== BATCH.has(kind)) return null
  const read = log !== undefined ? "LOG" : name !== undefined ? "GET" : query.get("watch") === "true" ? "WATCH" : "LIST"
  return { verb: method === "GET" ? read : method, kind: kind as Kind, namespace, name, query }
}

const answer = (response: ServerResponse | null, status: number, body: unknown): void => {
  response?.writeHead(status, { "content-type": "application/json" })
  response?.end(JSON.stringify(body))
}
