// Sends requests that reach only the public Internet and what the configuration allows (`http_allow`): a workflow must not
// reach the network of the server. Names are resolved here, each address is checked, and the connection goes to a checked
// address, so that a name that changes between check and connect (DNS rebinding) has no effect. Redirects are followed here,
// and each is checked. Used by http tasks, waits, polls of deferred work and notifications. Proxies of the environment are not used.

import { lookup } from "node:dns/promises"
import { isIP, type LookupFunction } from "node:net"
import { Agent, buildConnector, type Dispatcher, fetch, type Response } from "undici"
import type { AllowedHost } from "../../core/settings/http-allow.ts"
import { BLOCKED_REQUEST } from "../../core/model/ports.ts"
import { withTimeout } from "../timeout.ts"
import { AllowList, blockReason } from "./addresses.ts"
import { asError } from "../../core/values/error-message.ts"

export const DEFAULT_REDIRECTS = 5
const CONNECT_MS = 10_000
/** Names of metadata services, which are blocked without being resolved. */
const METADATA_HOSTS = new Set(["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"])
const REDIRECTS = new Set([301, 302, 303, 307, 308])
/** Headers that are also sent to another host that a request is redirected to. Any other may be a credential. */
const HARMLESS_HEADERS = new Set(["accept", "accept-encoding", "accept-language", "user-agent"])
const BODY_HEADERS = ["content-type", "content-length", "content-encoding", "content-language", "content-location"]

export interface Address {
  address: string
  family: number
}

/** A request that is not sent because of its target. `message` has advice. */
export class BlockedRequest extends Error {
  override readonly name = BLOCKED_REQUEST
}

export interface HttpPolicy {
  readonly dispatcher: Dispatcher
  readonly allow: AllowList
  close(): Promise<void>
}

export interface HttpPolicyOptions {
  allow: readonly AllowedHost[]
  connectMs?: number
  /** Resolves names; never called with an address. */
  resolve?(host: string): Promise<Address[]>
}

export interface GuardedInit {
  method?: string
  headers?: { [name: string]: string }
  body?: string | Uint8Array
  /** Maximum number of redirects; with 0, a redirect is returned as the response. */
  redirects?: number
  /** Called with every address before a request is sent to it; throws if it must not be. */
  check?(url: URL): void
  /** Called for each redirect that is followed. */
  onRedirect?(status: number, to: URL): void
  /** The only limit of the response time. */
  signal: AbortSignal
}

export const httpPolicy = ({ allow, connectMs = CONNECT_MS, resolve = systemResolve }: HttpPolicyOptions): HttpPolicy => {
  const list = new AllowList(allow)
  const check = async ({ hostname, port, protocol }: buildConnector.Options): Promise<Address[]> => {
    const host = plainHost(hostname)
    const addresses = await withTimeout(
      addressesOf(host, resolve),
      connectMs,
      `${host} was not resolved within ${connectMs} ms`,
    )
    return reachable(list, host, portOf(port, protocol), addresses)
  }
  // `lookup` returns only checked addresses; it is not called for a host that is an address.
  const connector = (addresses: Address[]): buildConnector.connector =>
    buildConnector({ timeout: connectMs, lookup: fixedLookup(addresses), maxCachedSessions: 0, allowH2: false })
  const connect = async (options: buildConnector.Options, done: buildConnector.Callback): Promise<void> => {
    let addresses: Address[]
    try {
      addresses = await check(options)
    } catch (error) {
      return done(asError(error), null)
    }
    connector(addresses)(options, done)
  }
  const dispatcher = new Agent({
    connect: (options, done) => void connect(options, done),
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return { dispatcher, allow: list, close: () => dispatcher.destroy() }
}

export const guardedFetch = async (address: string | URL, init: GuardedInit, policy: HttpPolicy): Promise<Response> => {
  let url = checkedUrl(String(address), policy.allow)
  init.check?.(url)
  let method = init.method ?? "GET"
  let body = init.body
  const headers = lowerCase(init.headers ?? {})
  const maxRedirects = init.redirects ?? DEFAULT_REDIRECTS
  for (let followed = 0; ; followed++) {
    const authorization = extractCredentials(url)
    if (authorization !== null) headers["authorization"] ??= authorization
    const response = await request(url, { method, headers, ...(body !== undefined && { body }), signal: init.signal }, policy)
    const { status } = response
    const location = REDIRECTS.has(status) ? response.headers.get("location") : null
    if (location === null || maxRedirects === 0) return response
    await response.body?.cancel()
    if (followed === maxRedirects) throw new BlockedRequest(`${url.origin} redirected more than ${maxRedirects} times`)
    const next = checkedUrl(resolveLocation(location, url), policy.allow)
    init.check?.(next)
    const isElsewhere = next.origin !== url.origin
    if (isElsewhere) for (const name of Object.keys(headers)) if (!HARMLESS_HEADERS.has(name)) delete headers[name]
    if (status === 303 ? method !== "HEAD" : method === "POST" && status < 307) {
      method = "GET"
      body = undefined
      for (const name of BODY_HEADERS) delete headers[name]
    } else if (isElsewhere && body !== undefined) {
      throw new BlockedRequest(`${url.origin} redirected a request with a body to ${next.origin}, which may not get it`)
    }
    init.onRedirect?.(status, next)
    url = next
  }
}

type Request = Pick<GuardedInit, "method" | "headers" | "body" | "signal">

const request = async (url: URL, { method, headers, body, signal }: Request, { dispatcher }: HttpPolicy): Promise<Response> => {
  try {
    return await fetch(url, {
      redirect: "manual",
      dispatcher,
      signal,
      ...(method !== undefined && { method }),
      ...(headers !== undefined && { headers }),
      ...(body !== undefined && { body }),
    })
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null
    if (cause instanceof BlockedRequest) throw cause
    // The Fetch standard blocks ports of mail, DNS and other protocols, for which a request could be a valid message.
    if (cause instanceof Error && cause.message === "bad port") {
      throw new BlockedRequest(`port ${url.port} belongs to another protocol, and requests to it are blocked`)
    }
    throw error
  }
}

// -- addresses -------------------------------------------------------------------------------------------------------------------

const systemResolve = (host: string): Promise<Address[]> => lookup(host, { all: true, order: "verbatim" })

const portOf = (port: string, protocol: string): number => Number(port) || (protocol === "https:" ? 443 : 80)

const plainHost = (hostname: string): string => hostname.replace(/^\[(.+)\]$/, "$1").replace(/\.$/, "")

const addressesOf = (host: string, resolve: (host: string) => Promise<Address[]>): Promise<Address[]> | Address[] =>
  isIP(host) === 0 ? resolve(host) : [{ address: host, family: isIP(host) }]

/** Returns the addresses that may be reached. Throws when there are none. */
const reachable = (allow: AllowList, host: string, port: number, addresses: Address[]): Address[] => {
  if (allow.allowsHost(host, port)) return addresses
  if (METADATA_HOSTS.has(host)) throw blocked(host, host, "a metadata service of a cloud")
  const checked = addresses.filter(({ address }) => blockReason(address) === null || allow.allowsAddress(address, port))
  const [first] = addresses
  if (checked.length > 0) return checked
  if (first === undefined) throw new Error(`${host} has no address`)
  throw blocked(host, first.address, blockReason(first.address) ?? "no public address")
}

const blocked = (host: string, address: string, reason: string): BlockedRequest => {
  const subject = host === address ? `${host} is` : `${host} is ${address},`
  return new BlockedRequest(
    `${subject} ${reason}, which requests must not reach; if this one may, add "${host}" to http_allow in ork.yaml (ORK_HTTP_ALLOW)`,
  )
}

const fixedLookup =
  (addresses: Address[]): LookupFunction =>
  (_host, options, done) => {
    const [first] = addresses
    if (options.all === true) done(null, addresses)
    else if (first !== undefined) done(null, first.address, first.family)
  }

// -- URLs ------------------------------------------------------------------------------------------------------------------------

/** Checks what the text alone shows. Addresses are checked again before the connection. */
const checkedUrl = (text: string, allow: AllowList): URL => {
  if (!URL.canParse(text)) throw new BlockedRequest("the address is not a URL such as https://example.org/")
  const url = new URL(text)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new BlockedRequest(`${url.protocol} addresses are not supported; only http: and https: are`)
  }
  const host = plainHost(url.hostname)
  if (isIP(host) === 4 && !text.includes(host)) {
    throw new BlockedRequest(`the host of ${url.origin} is written in a way that hides its address; write ${host}`)
  }
  if (isIP(host) !== 0) reachable(allow, host, portOf(url.port, url.protocol), [{ address: host, family: isIP(host) }])
  return url
}

const resolveLocation = (location: string, base: URL): string => {
  if (!URL.canParse(location, base.href)) throw new BlockedRequest(`${base.origin} redirected to an invalid URL`)
  // An absolute URL is checked as it is written.
  return /^[a-z][a-z0-9+.-]*:/i.test(location) ? location : new URL(location, base.href).href
}

/** Removes the credentials from a URL. Returns them as an Authorization header; null when there are none. */
const extractCredentials = (url: URL): string | null => {
  if (url.username === "" && url.password === "") return null
  const pair = `${decoded(url.username)}:${decoded(url.password)}`
  url.username = url.password = ""
  return `Basic ${Buffer.from(pair).toString("base64")}`
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const lowerCase = (headers: { [name: string]: string }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
