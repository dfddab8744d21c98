// A strict fake of a cluster's API server: it accepts the requests that the executor may make and rejects everything else,
// checks bodies against the published types, runs pods as real processes, and injects the faults that tests ask for.

import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { admitted } from "./admission.ts"
import { Controllers, NAMESPACE } from "./controllers.ts"
import { LogServer } from "./log-server.ts"
import { RIGHTS, rightFor } from "./rights.ts"
import { matches, problemsOf, QUERIES } from "./rules.ts"
import { type ApiObject, type NewObject, type Kind, ObjectStorage } from "./object-storage.ts"
import { Watches } from "./watches.ts"

export interface Fault {
  /** `POST jobs`, `WATCH pods`, `LIST jobs`, `LOG pods`, `DELETE jobs`, … */
  on: string
  times: number
  /** drop: no response; lose: the request is carried out, and its response lost. */
  response: { status: number; reason?: string; message?: string; retryAfter?: number } | "drop" | "lose"
}

interface Call {
  verb: string
  kind: Kind
  namespace: string
  name: string | undefined
  query: URLSearchParams
}

const PATH = /^\/(?:api\/v1|apis\/batch\/v1)\/namespaces\/([^/]+)\/(jobs|pods|secrets|events)(?:\/([^/]+))?(\/log)?$/
const BATCH = new Set<string>(["jobs"])

export class FakeCluster {
  readonly storage = new ObjectStorage()
  readonly controllers = new Controllers(this.storage)
  readonly logs = new LogServer(this.controllers.kubelet)
  readonly watches = new Watches(this.storage)
  /** All requests as `VERB kind`, in order. */
  readonly requests: string[] = []
  readonly rejected: string[] = []
  /** Rights of deploy/kubernetes/rbac.yaml that were used. */
  readonly used = new Set<string>()
  faults: Fault[] = []
  /** Breaks the connection of every request, as while the API server restarts. */
  down = false
  /** The accepted token. */
  token = "test-token"
  kubeconfig = ""
  #folder = ""
  readonly #server = createServer((request, response) => void this.#handle(request, response))

  async start(): Promise<this> {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    this.#folder = mkdtempSync(join(tmpdir(), "ork-cluster-"))
    this.kubeconfig = join(this.#folder, "kubeconfig")
    this.writeKubeconfig()
    return this
  }

  /** Writes the kubeconfig with the accepted token. */
  writeKubeconfig(): void {
    const { port } = this.#server.address() as AddressInfo
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "fake",
      contexts: [{ name: "fake", context: { cluster: "fake", user: "ork", namespace: NAMESPACE } }],
      clusters: [{ name: "fake", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
      users: [{ name: "ork", user: { token: this.token } }],
    }
    writeFileSync(this.kubeconfig, JSON.stringify(config))
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
    return this.storage.list("jobs", NAMESPACE)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const call = parse(request)
    if (call === null) return this.#reject(response, 404, "NotFound", `no such path: ${request.url}`)
    const name = `${call.verb} ${call.kind}`
    this.requests.push(name)
    if (this.down) return void request.socket.destroy()
    const fault = this.faults.find(({ on, times }) => on === name && times > 0)
    if (fault !== undefined) fault.times -= 1
    if (fault?.response === "drop") return void request.socket.destroy()
    if (fault !== undefined && fault.response !== "lose") {
      const { status, reason = "", message = "injected", retryAfter } = fault.response
      if (retryAfter !== undefined) response.setHeader("retry-after", retryAfter)
      return send(response, status, { kind: "Status", status: "Failure", code: status, reason, message })
    }
    if (request.headers.authorization !== `Bearer ${this.token}`)
      return this.#reject(response, 401, "Unauthorized", "Unauthorized")
    const right = rightFor(call.verb, call.kind)
    if (!RIGHTS.has(right)) return this.#reject(response, 403, "Forbidden", `${name} is forbidden`)
    this.used.add(right)
    const unknown = [...call.query.keys()].filter((key) => !(QUERIES[call.verb] ?? []).includes(key))
    if (unknown.length > 0) return this.#reject(response, 400, "BadRequest", `unknown parameters of ${name}: ${unknown.join()}`)
    const body = pieces.length === 0 ? null : (JSON.parse(Buffer.concat(pieces).toString()) as object)
    if (body !== null && request.headers["content-type"] !== "application/json") {
      return this.#reject(response, 415, "UnsupportedMediaType", `the body of the request was in an unknown format`)
    }
    if (fault?.response === "lose") {
      this.#serve(call, body, null)
      request.socket.destroy()
    } else this.#serve(call, body, response)
  }

  #serve(call: Call, body: object | null, response: ServerResponse | null): void {
    const { kind, namespace, name, query } = call
    const object = name === undefined ? undefined : this.storage.get(kind, namespace, name)
    if (name !== undefined && object === undefined)
      return this.#reject(response, 404, "NotFound", `${kind} "${name}" not found`)
    switch (`${call.verb} ${kind}`) {
      case "LIST jobs":
      case "LIST pods":
      case "LIST events":
      case "CONTINUE jobs":
      case "CONTINUE pods":
        return this.#list(call, response)
      case "WATCH jobs":
      case "WATCH pods":
        if (response !== null && !this.watches.begin(kind, namespace, query, response)) this.#gone(response)
        return undefined
      case "POST jobs":
      case "POST secrets":
        return this.#create(call, body ?? {}, response)
      case "GET jobs":
        return send(response, 200, object)
      case "LOG pods":
        return response === null ? undefined : this.logs.serve(object!, query, response)
      case "DELETE jobs":
        this.controllers.jobs.deleteJob(object!, query.get("propagationPolicy"))
        return send(response, 200, this.storage.get(kind, namespace, name!) ?? object)
      default:
        return this.#reject(response, 405, "MethodNotAllowed", `${call.verb} of ${kind} is not implemented by the fake`)
    }
  }

  #create({ kind, namespace, query }: Call, body: object, response: ServerResponse | null): void {
    if (query.get("fieldValidation") !== "Strict") return this.#reject(response, 400, "BadRequest", "not strict")
    const { decode, validate } = problemsOf(kind, body)
    if (decode.length > 0) return this.#reject(response, 400, "BadRequest", `strict decoding error: ${decode.join(", ")}`)
    if (validate.length > 0) return this.#reject(response, 422, "Invalid", `${kind} is invalid: ${validate.join(", ")}`)
    const given = body as NewObject
    const created = this.storage.add(kind, namespace, admitted(kind, given))
    if (created !== null) return send(response, 201, created)
    const status = {
      kind: "Status",
      code: 409,
      reason: "AlreadyExists",
      message: `${kind} "${given.metadata.name}" already exists`,
    }
    send(response, 409, status)
  }

  #list({ kind, namespace, query }: Call, response: ServerResponse | null): void {
    const selector = query.get("labelSelector")
    const about = /^involvedObject\.name=([^,]+),type=Warning$/.exec(query.get("fieldSelector") ?? "")?.[1]
    const all = this.storage
      .list(kind, namespace)
      .filter(({ metadata }) => selector === null || matches(selector, metadata.labels))
      .filter(({ involvedObject }) => about === undefined || involvedObject?.name === about)
    // All pages of a list have the version of the first one.
    const [version = this.storage.version, from = 0] = (query.get("continue") ?? "").split("/").filter(Boolean).map(Number)
    if (version < this.storage.forgotten) {
      return this.#reject(response, 410, "Expired", "The provided continue parameter is too old")
    }
    const to = from + Number(query.get("limit") ?? all.length)
    const metadata = { resourceVersion: String(version), ...(to < all.length && { continue: `${version}/${to}` }) }
    send(response, 200, { kind: "List", metadata, items: all.slice(from, to) })
  }

  #gone(response: ServerResponse): void {
    send(response, 410, { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" })
  }

  #reject(response: ServerResponse | null, code: number, reason: string, message: string): void {
    this.rejected.push(`${code} ${message}`)
    send(response, code, { kind: "Status", status: "Failure", code, reason, message })
  }
}

const parse = ({ method = "", url = "" }: IncomingMessage): Call | null => {
  const { pathname, searchParams: query } = new URL(url, "http://cluster")
  const match = PATH.exec(pathname)
  if (match === null) return null
  const [, namespace = "", kind = "", name, log] = match
  if (pathname.startsWith("/apis/batch") !== BATCH.has(kind)) return null
  const read =
    log !== undefined
      ? "LOG"
      : name !== undefined
        ? "GET"
        : query.get("watch") === "true"
          ? "WATCH"
          : query.has("continue")
            ? "CONTINUE"
            : "LIST"
  return { verb: method === "GET" ? read : method, kind: kind as Kind, namespace, name, query }
}

const send = (response: ServerResponse | null, status: number, body: unknown): void => {
  response?.writeHead(status, { "content-type": "application/json" })
  response?.end(JSON.stringify(body))
}
