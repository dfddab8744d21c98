// Requests to the API server, under the official client's configuration (kubeconfig, in-cluster, certificates, tokens, plugins, proxies).
// They are sent from here and not by its generated calls, which make a pool of connections for each request; see docs/decisions/kubernetes.md.

import { existsSync, readFileSync } from "node:fs"
import type { RequestOptions } from "node:https"
import { homedir } from "node:os"
import { delimiter, join } from "node:path"
import type { Readable } from "node:stream"
import { HttpMethod, KubeConfig, RequestContext } from "@kubernetes/client-node"
import { type Dispatcher, request } from "undici"
import { errorOf, Unreachable } from "./api-error.ts"

const ANSWER_MS = 30_000
const MAX_ERROR_BYTES = 65_536
const ACCOUNT_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

export interface ClusterOptions {
  /** Settings; empty: not said. */
  kubeconfig: string
  namespace: string
  env: { [name: string]: string | undefined }
}

export type Query = { [name: string]: string }

export interface CallOptions {
  query?: Query
  body?: object
  signal?: AbortSignal
}

export class Cluster {
  /** Of tasks that name none. */
  readonly namespace: string
  readonly #config: KubeConfig
  readonly #server: string
  #connections: { key: string; dispatcher: Dispatcher | undefined } | null = null

  /** Throws when there is no cluster to speak to. */
  constructor({ kubeconfig, namespace, env }: ClusterOptions) {
    const { config, inside } = loadConfig(kubeconfig, env)
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw new Error(`the kubeconfig has no cluster for its context ${config.getCurrentContext()}`)
    this.#config = config
    this.#server = cluster.server.replace(/\/+$/, "")
    const own = inside ? accountNamespace() : config.getContextObject(config.getCurrentContext())?.namespace
    this.namespace = namespace || own || "default"
  }

  async call<T>(method: "GET" | "POST" | "DELETE", path: string, options: CallOptions = {}): Promise<T> {
    const late = AbortSignal.timeout(ANSWER_MS)
    const signal = options.signal === undefined ? late : AbortSignal.any([late, options.signal])
    const body = await this.#send(method, path, { ...options, signal })
    try {
      return (await body.json()) as T
    } catch (error) {
      throw new Unreachable(error)
    }
  }

  /** An answer that comes for as long as `signal` lets it. */
  async stream(path: string, options: Required<Pick<CallOptions, "query" | "signal">>): Promise<Readable> {
    return await this.#send("GET", path, options)
  }

  close(): void {
    void this.#connections?.dispatcher?.destroy().catch(() => {})
    this.#connections = null
  }

  async #send(method: "GET" | "POST" | "DELETE", path: string, { query = {}, body, signal }: CallOptions) {
    const { headers, dispatcher } = await this.#access()
    const search = new URLSearchParams(query).toString()
    const url = `${this.#server}${path}${search === "" ? "" : `?${search}`}`
    let answer: Dispatcher.ResponseData
    try {
      answer = await request(url, {
        method,
        headers: {
          ...headers,
          accept: "application/json, */*",
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        body: body === undefined ? null : JSON.stringify(body),
        bodyTimeout: 0,
        headersTimeout: ANSWER_MS,
        ...(signal !== undefined && { signal }),
        ...(dispatcher !== undefined && { dispatcher }),
      })
    } catch (error) {
      throw new Unreachable(error)
    }
    const { statusCode, headers: answered } = answer
    if (statusCode >= 200 && statusCode < 300) return answer.body
    const retryAfter = answered["retry-after"]
    throw errorOf(statusCode, await textOf(answer.body), Array.isArray(retryAfter) ? retryAfter[0] : retryAfter)
  }

  /** Who we are may change (a token runs out), and with it the connections. */
  async #access(): Promise<{ headers: { [name: string]: string }; dispatcher: Dispatcher | undefined }> {
    const options: RequestOptions = {}
    await this.#config.applyToHTTPSOptions(options)
    const { ca, cert, key: secret, servername, rejectUnauthorized, auth, headers } = options
    const key = [ca, cert, secret, servername, rejectUnauthorized].map(String).join("\n")
    if (this.#connections?.key !== key) {
      const context = new RequestContext(this.#server, HttpMethod.GET)
      await this.#config.applySecurityAuthentication(context)
      const old = this.#connections?.dispatcher
      this.#connections = { key, dispatcher: context.getDispatcher() }
      void old?.close().catch(() => {})
    }
    const basic = auth === undefined || auth === null ? {} : { authorization: `Basic ${Buffer.from(auth).toString("base64")}` }
    return { headers: { ...basic, ...(headers as { [name: string]: string }) }, dispatcher: this.#connections.dispatcher }
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

const loadConfig = (kubeconfig: string, env: ClusterOptions["env"]): { config: KubeConfig; inside: boolean } => {
  const config = new KubeConfig()
  const home = join(env["HOME"] || homedir(), ".kube", "config")
  const said = kubeconfig || env["KUBECONFIG"] || (existsSync(home) ? home : "")
  const [first, ...more] = said.split(delimiter).filter((file) => file !== "")
  if (first !== undefined) {
    config.loadFromFile(first)
    for (const file of more) {
      const other = new KubeConfig()
      other.loadFromFile(file)
      config.mergeConfig(other)
    }
    return { config, inside: false }
  }
  if (env["KUBERNETES_SERVICE_HOST"] === undefined) {
    throw new Error("no cluster is known: set KUBECONFIG or the setting kubeconfig, or run Ork in the cluster")
  }
  config.loadFromCluster()
  return { config, inside: true }
}

const accountNamespace = (): string => {
  try {
    return readFileSync(ACCOUNT_NAMESPACE, "utf8").trim()
  } catch {
    return ""
  }
}
