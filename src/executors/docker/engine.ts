// A client of the engine's HTTP API (Docker, or Podman's compatible one), over its socket. The version is negotiated once;
// short requests have a time limit. Throws an EngineError when the engine rejects a request, and an EngineUnreachable when
// there is no response.

import { Agent, type ClientRequest, type IncomingMessage, request as httpRequest, type RequestOptions } from "node:http"
import { Agent as TlsAgent, request as httpsRequest } from "node:https"
import type { Duplex } from "node:stream"
import { messageOf } from "../../core/values/error-message.ts"
import type { EngineAddress } from "./address.ts"

/** The newest API version that this client was written for. */
const NEWEST = "1.51"
/** The oldest API version with all features that this client uses. */
const OLDEST = "1.40"
const REQUEST_MS = 120_000
const MAX_BODY = 16 << 20

export class EngineError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export class EngineUnreachable extends Error {}

export interface EngineCall {
  query?: { [name: string]: string }
  body?: unknown
  headers?: { [name: string]: string }
  signal?: AbortSignal
  /** null for no limit. */
  timeoutMs?: number | null
}

export class DockerEngine {
  readonly address: EngineAddress
  readonly #agent: Agent
  #version: string | null = null

  constructor(address: EngineAddress) {
    this.address = address
    this.#agent = address.tls === undefined ? new Agent({ keepAlive: true }) : new TlsAgent({ keepAlive: true })
  }

  /** Negotiates the version; must be called first. Throws when there is none in common. */
  async connect(): Promise<void> {
    const about = (await this.call("GET", "/version")) as { ApiVersion?: string; MinAPIVersion?: string }
    const theirs = about.ApiVersion ?? "0"
    const version = older(theirs, NEWEST) ? theirs : NEWEST
    if (older(version, OLDEST) || older(version, about.MinAPIVersion ?? "0")) {
      throw new Error(
        `the container engine at ${this.address.shown} supports API ${about.MinAPIVersion ?? "?"} to ${theirs}; Ork needs one between ${OLDEST} and ${NEWEST}`,
      )
    }
    this.#version = version
  }

  close(): void {
    this.#agent.destroy()
  }

  /** Returns the response body, parsed if it is JSON; null if it is empty. */
  async call(method: string, path: string, call: EngineCall = {}): Promise<unknown> {
    const response = await this.stream(method, path, call)
    try {
      const text = await readText(response)
      return text === "" ? null : /json/.test(response.headers["content-type"] ?? "") ? JSON.parse(text) : text
    } catch (error) {
      throw new EngineUnreachable(`the response of the container engine is incomplete: ${messageOf(error)}`, { cause: error })
    }
  }

  /** Returns the response as a stream. Throws for statuses of 400 and more. */
  async stream(method: string, path: string, call: EngineCall = {}): Promise<IncomingMessage> {
    return (await this.#send(method, path, call)).response
  }

  /** Upgrades a request to a bidirectional connection: the container's standard streams. */
  async hijack(path: string): Promise<Duplex> {
    const headers = { connection: "Upgrade", upgrade: "tcp" }
    const { response, socket } = await this.#send("POST", path, { headers })
    if (socket !== null) return socket
    response.destroy()
    throw new EngineError(response.statusCode ?? 500, "the engine does not upgrade the connection")
  }

  #request(method: string, path: string, call: EngineCall): ClientRequest {
    const { address } = this
    const prefix = this.#version === null ? "" : `/v${this.#version}`
    const query = call.query === undefined ? "" : `?${new URLSearchParams(call.query).toString()}`
    const options: RequestOptions = {
      method,
      path: prefix + path + query,
      agent: this.#agent,
      headers: {
        host: address.host ?? "localhost",
        ...(call.body !== undefined && { "content-type": "application/json" }),
        ...call.headers,
      },
      ...(address.socketPath === undefined ? { host: address.host, port: address.port } : { socketPath: address.socketPath }),
      ...(call.signal !== undefined && { signal: call.signal }),
    }
    return address.tls === undefined ? httpRequest(options) : httpsRequest({ ...options, ...address.tls })
  }

  async #send(method: string, path: string, call: EngineCall): Promise<{ response: IncomingMessage; socket: Duplex | null }> {
    const { timeoutMs = REQUEST_MS } = call
    const request = this.#request(method, path, call)
    if (timeoutMs !== null) {
      request.setTimeout(timeoutMs, () => request.destroy(new Error(`no response for ${timeoutMs / 1000} s`)))
    }
    const { promise, resolve, reject } = Promise.withResolvers<{ response: IncomingMessage; socket: Duplex | null }>()
    request.on("response", (response) => resolve({ response, socket: null }))
    request.on("upgrade", (response, socket, head) => {
      socket.setTimeout(0)
      // The first bytes of the stream may arrive together with the response.
      socket.unshift(head)
      resolve({ response, socket })
    })
    request.on("error", reject)
    request.end(call.body === undefined ? undefined : JSON.stringify(call.body))
    const exchange = await promise.catch((error: unknown) => {
      if (call.signal?.aborted === true) throw error
      throw new EngineUnreachable(unreachable(this.address.shown, error), { cause: error })
    })
    if ((exchange.response.statusCode ?? 500) >= 400) throw await errorOf(exchange.response)
    return exchange
  }
}

const unreachable = (where: string, error: unknown): string => {
  const hint = "start Docker or Podman there, or set DOCKER_HOST to another engine"
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  if (code === "EACCES") return `the container engine at ${where} denies access to this user: join its group, or ${hint}`
  return `the container engine at ${where} cannot be reached (${messageOf(error)}): ${hint}`
}

const readText = async (response: IncomingMessage): Promise<string> => {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > MAX_BODY) throw new Error("a response of more than 16 MiB")
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString("utf8")
}

const errorOf = async (response: IncomingMessage): Promise<EngineError> => {
  const text = await readText(response).catch(() => "")
  const status = response.statusCode ?? 500
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    if (typeof message === "string") return new EngineError(status, message.trim())
  } catch {
    // A body that is not JSON is the message.
  }
  return new EngineError(status, text.trim() || `status ${status}`)
}

/** Compares versions of the form `major.minor`. */
const older = (a: string, b: string): boolean => {
  const [majorA = 0, minorA = 0] = a.split(".").map(Number)
  const [majorB = 0, minorB = 0] = b.split(".").map(Number)
  return majorA === majorB ? minorA < minorB : majorA < majorB
}
