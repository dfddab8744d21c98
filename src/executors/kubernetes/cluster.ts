// Sends requests to the API server with the official client's configuration (kubeconfig, in-cluster, certificates, tokens,
// plugins, proxies). Its generated calls are not used: they create a pool of connections for each request
// (docs/decisions/kubernetes.md).

import type { RequestOptions } from "node:https"
import type { Readable } from "node:stream"
import { HttpMethod, type KubeConfig, RequestContext } from "@kubernetes/client-node"
import { type Dispatcher, request } from "undici"
import type { Clock } from "../../core/model/ports.ts"
import { withTimeout } from "../timeout.ts"
import { type KubernetesApiError, errorOf, isStatus, Unreachable } from "./api-error.ts"
import { loadConfig, type Settings } from "./kubeconfig.ts"

const RESPONSE_MS = 30_000
const MAX_ERROR_BYTES = 65_536
/** Minimum age of the configuration before a 401 makes it load again. */
const STALE_MS = 5000

export interface ClusterOptions extends Settings {
  /** Empty when not set. */
  namespace: string
  clock: Pick<Clock, "monotonic">
  /** Time limit of a response, in milliseconds. */
  responseMs?: number
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
  /** Namespace of tasks that name none. */
  readonly namespace: string
  readonly #settings: Settings
  readonly #server: string
  readonly #responseMs: number
  #config: KubeConfig
  readonly #clock: Pick<Clock, "monotonic">
  #readAt: number
  #access: Promise<Access> | null = null
  #connections: { key: string; dispatcher: Dispatcher | undefined } | null = null

  /** Throws when no cluster is configured. */
  constructor({ kubeconfig, namespace, env, clock, responseMs = RESPONSE_MS }: ClusterOptions) {
    this.#clock = clock
    this.#readAt = clock.monotonic()
    this.#settings = { kubeconfig, env }
    const { config, namespace: own } = loadConfig(this.#settings)
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw new Error(`the kubeconfig has no cluster for its context ${config.getCurrentContext()}`)
    this.#config = config
    this.#server = cluster.server.replace(/\/+$/, "")
    this.#responseMs = responseMs
    this.namespace = namespace || own || "default"
  }

  async call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
    const timeout = AbortSignal.timeout(this.#responseMs)
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal])
    const body = await this.#send(method, path, { ...options, signal }, this.#responseMs)
    try {
      return (await body.json()) as T
    } catch (error) {
      throw new Unreachable(error)
    }
  }

  /**
   * Opens a response without a time limit, which ends with `signal`: a log has no first byte until the container writes one.
   */
  async stream(path: string, options: Required<Pick<CallOptions, "query" | "signal">>): Promise<Readable> {
    return await this.#send("GET", path, options, 0)
  }

  close(): void {
    void this.#connections?.dispatcher?.destroy().catch(() => {})
    this.#connections = null
  }

  async #send(method: Method, path: string, options: CallOptions, headersTimeout: number): Promise<Body> {
    const used = this.#config
    const response = await this.#request(method, path, options, headersTimeout)
    if (!isStatus(response, 401) || !this.#renew(used)) return bodyOf(response)
    return bodyOf(await this.#request(method, path, options, headersTimeout))
  }

  async #request(
    method: Method,
    path: string,
    { query = {}, body, signal }: CallOptions,
    headersTimeout: number,
  ): Promise<Body | KubernetesApiError> {
    const search = new URLSearchParams(query).toString()
    const url = `${this.#server}${path}${search === "" ? "" : `?${search}`}`
    let response: Dispatcher.ResponseData
    try {
      const { headers, dispatcher } = await this.#authenticate()
      response = await request(url, {
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
    const { statusCode, headers: responseHeaders } = response
    if (statusCode >= 200 && statusCode < 300) return response.body
    const retryAfter = responseHeaders["retry-after"]
    return errorOf(statusCode, await textOf(response.body), Array.isArray(retryAfter) ? retryAfter[0] : retryAfter)
  }

  /**
   * Loads the configuration again, since tokens and certificates are renewed in files. Returns false when there is none other than
   * the one that was used. Concurrent requests share one renewal.
   */
  #renew(used: KubeConfig): boolean {
    if (this.#config !== used) return true
    const now = this.#clock.monotonic()
    if (now - this.#readAt < STALE_MS) return false
    this.#readAt = now
    try {
      this.#config = loadConfig(this.#settings).config
      return true
    } catch {
      return false
    }
  }

  /** Shares one authentication among all requests that are about to be sent: it may run a plugin, which may hang. */
  #authenticate(): Promise<Access> {
    this.#access ??= withTimeout(this.#loadAccess(), this.#responseMs, NO_CREDENTIALS).finally(() => (this.#access = null))
    return this.#access
  }

  /** Opens new connections when certificates have changed. */
  async #loadAccess(): Promise<Access> {
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
    // A token file may end in a newline.
    for (const [name, value] of Object.entries(options.headers ?? {})) headers[name] = String(value).trim()
    return { headers, dispatcher: this.#connections.dispatcher }
  }
}

const NO_CREDENTIALS = "no credentials within the time limit: does the kubeconfig's plugin hang?"

const bodyOf = (response: Body | KubernetesApiError): Body => {
  if (response instanceof Error) throw response
  return response
}

const textOf = async (body: Readable): Promise<string> => {
  let text = ""
  try {
    for await (const chunk of body) {
      text += String(chunk)
      if (text.length > MAX_ERROR_BYTES) break
    }
  } catch {
    // The part that was received is enough for a message.
  }
  return text
}
