// Requests to the API server, under the official client's configuration (kubeconfig, in-cluster, certificates, tokens, plugins, proxies).
// They are sent from here and not by its generated calls, which make a pool of connections for each request; see docs/decisions/kubernetes.md.

import type { RequestOptions } from "node:https"
import type { Readable } from "node:stream"
import { HttpMethod, type KubeConfig, RequestContext } from "@kubernetes/client-node"
import { type Dispatcher, request } from "undici"
import { type ApiError, errorOf, isStatus, Unreachable } from "./api-error.ts"
import { loadConfig, type Settings } from "./kubeconfig.ts"

const ANSWER_MS = 30_000
const MAX_ERROR_BYTES = 65_536
/** A configuration that the cluster does not accept is read anew this long after it was read. */
const STALE_MS = 5000

export interface ClusterOptions extends Settings {
  /** Empty: not said. */
  namespace: string
  /** How long an answer may take. */
  answerMs?: number
}

export type Query = { [name: string]: string }

export interface CallOptions {
  query?: Query
  body?: object
  signal?: AbortSignal
}

type Method = "GET" | "POST" | "DELETE"
type Body = Dispatcher.ResponseData["body"]

interface Access {
  headers: { [name: string]: string }
  dispatcher: Dispatcher | undefined
}

export class Cluster {
  /** Of tasks that name none. */
  readonly namespace: string
  readonly #settings: Settings
  readonly #server: string
  readonly #answerMs: number
  #config: KubeConfig
  #readAt = Date.now()
  #access: Promise<Access> | null = null
  #connections: { key: string; dispatcher: Dispatcher | undefined } | null = null

  /** Throws when there is no cluster to speak to. */
  constructor({ kubeconfig, namespace, env, answerMs = ANSWER_MS }: ClusterOptions) {
    this.#settings = { kubeconfig, env }
    const { config, namespace: own } = loadConfig(this.#settings)
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw new Error(`the kubeconfig has no cluster for its context ${config.getCurrentContext()}`)
    this.#config = config
    this.#server = cluster.server.replace(/\/+$/, "")
    this.#answerMs = answerMs
    this.namespace = namespace || own || "default"
  }

  async call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
    const late = AbortSignal.timeout(this.#answerMs)
    const signal = options.signal === undefined ? late : AbortSignal.any([late, options.signal])
    const body = await this.#send(method, path, { ...options, signal }, this.#answerMs)
    try {
      return (await body.json()) as T
    } catch (error) {
      throw new Unreachable(error)
    }
  }

  /** An answer that comes for as long as `signal` lets it: a log begins to come when the container says something. */
  async stream(path: string, options: Required<Pick<CallOptions, "query" | "signal">>): Promise<Readable> {
    return await this.#send("GET", path, options, 0)
  }

  close(): void {
    void this.#connections?.dispatcher?.destroy().catch(() => {})
    this.#connections = null
  }

  async #send(method: Method, path: string, options: CallOptions, headersTimeout: number): Promise<Body> {
    const answer = await this.#request(method, path, options, headersTimeout)
    if (!isStatus(answer, 401) || !this.#renew()) return bodyOf(answer)
    return bodyOf(await this.#request(method, path, options, headersTimeout))
  }

  async #request(
    method: Method,
    path: string,
    { query = {}, body, signal }: CallOptions,
    headersTimeout: number,
  ): Promise<Body | ApiError> {
    const search = new URLSearchParams(query).toString()
    const url = `${this.#server}${path}${search === "" ? "" : `?${search}`}`
    let answer: Dispatcher.ResponseData
    try {
      const { headers, dispatcher } = await this.#who()
      answer = await request(url, {
        method,
        headers: {
          ...headers,
          accept: "application/json, */*",
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        body: body === undefined ? null : JSON.stringify(body),
        bodyTimeout: 0,
        headersTimeout,
        ...(signal !== undefined && { signal }),
        ...(dispatcher !== undefined && { dispatcher }),
      })
    } catch (error) {
      throw new Unreachable(error)
    }
    const { statusCode, headers: answered } = answer
    if (statusCode >= 200 && statusCode < 300) return answer.body
    const retryAfter = answered["retry-after"]
    return errorOf(statusCode, await textOf(answer.body), Array.isArray(retryAfter) ? retryAfter[0] : retryAfter)
  }

  /** Tokens and certificates are renewed in files, and plugins give new ones. False: they were read just now. */
  #renew(): boolean {
    if (Date.now() - this.#readAt < STALE_MS) return false
    this.#readAt = Date.now()
    try {
      this.#config = loadConfig(this.#settings).config
      return true
    } catch {
      return false
    }
  }

  /** Asked for once, however many requests are about to be made: it may mean a plugin, which may hang. */
  #who(): Promise<Access> {
    this.#access ??= within(this.#answerMs, this.#identify()).finally(() => (this.#access = null))
    return this.#access
  }

  /** Who we are may change (a token runs out), and with it the connections. */
  async #identify(): Promise<Access> {
    const options: RequestOptions = {}
    await this.#config.applyToHTTPSOptions(options)
    const { ca, cert, key: secret, servername, rejectUnauthorized, auth } = options
    const key = [ca, cert, secret, servername, rejectUnauthorized].map(String).join("\n")
    if (this.#connections?.key !== key) {
      const context = new RequestContext(this.#server, HttpMethod.GET)
      await this.#config.applySecurityAuthentication(context)
      const old = this.#connections?.dispatcher
      this.#connections = { key, dispatcher: context.getDispatcher() }
      void old?.close().catch(() => {})
    }
    const headers: { [name: string]: string } = {}
    if (auth !== undefined && auth !== null) headers["authorization"] = `Basic ${Buffer.from(auth).toString("base64")}`
    // A file with a token ends in a line end at times.
    for (const [name, value] of Object.entries(options.headers ?? {})) headers[name] = String(value).trim()
    return { headers, dispatcher: this.#connections.dispatcher }
  }
}

const bodyOf = (answer: Body | ApiError): Body => {
  if (answer instanceof Error) throw answer
  return answer
}

const within = async <T>(ms: number, work: Promise<T>): Promise<T> => {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error("no credentials came in time: does the kubeconfig's plugin hang?")), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const textOf = async (body: Readable): Promise<string> => {
  let text = ""
  try {
    for await (const chunk of body) {
      text += String(chunk)
      if (text.length > MAX_ERROR_BYTES) break
    }
  } catch {
    // What came is enough.
  }
  return text
}
