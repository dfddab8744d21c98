// Requests that only reach the public Internet, and what the configuration allows beside it (`http_allow`): a workflow must not
// get at what lies around the server. Names are resolved here, each address is checked, and the connection goes to a checked address
// and no other, so a name that changes between look and connect gains nothing. Redirects are followed here, each checked anew.
// Used by http tasks, by polls of deferred work and by notices. Proxies of the environment are not used.

import { lookup } from "node:dns/promises"
import { isIP, type LookupFunction } from "node:net"
import { Agent, buildConnector, type Dispatcher, fetch, type Response } from "undici"
import type { AllowedHost } from "../../core/settings/http-allow.ts"
import { BLOCKED_REQUEST } from "../../core/model/ports.ts"
import { AllowList, refusalOf } from "./addresses.ts"

export const DEFAULT_REDIRECTS = 5
const CONNECT_MS = 10_000
/** Names of metadata services: refused before anybody is asked about them. */
const METADATA = new Set(["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"])
const REDIRECTS = new Set([301, 302, 303, 307, 308])
/** Not for another host's eyes. */
const CREDENTIALS = ["authorization", "cookie", "proxy-authorization"]
const OF_BODY = ["content-type", "content-length", "content-encoding", "content-language", "content-location"]

export interface Address {
  address: string
  family: number
}

/** A request that is not made because of where it would go. `message` says what to do about it. */
export class RefusedRequest extends Error {
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
  /** Of a name that is no address. */
  resolve?(host: string): Promise<Address[]>
}

export interface GuardedInit {
  method?: string
  headers?: { [name: string]: string }
  body?: string | Uint8Array
  /** How many are followed; 0: the answer that redirects is the answer. */
  redirects?: number
  /** Headers that another host must not see either, in lower case. */
  private?: readonly string[]
  /** Told of each that is followed. */
  redirected?(status: number, to: URL): void
  /** Ends it: nothing else limits how long an answer may take. */
  signal: AbortSignal
}

export const httpPolicy = ({ allow, connectMs = CONNECT_MS, resolve = systemResolve }: HttpPolicyOptions): HttpPolicy => {
  const list = new AllowList(allow)
  const check = async ({ hostname, port, protocol }: buildConnector.Options): Promise<Address[]> => {
    const host = plainHost(hostname)
    const addresses = await within(connectMs, addressesOf(host, resolve), `${host} was not resolved`)
    return reachable(list, host, portOf(port, protocol), addresses)
  }
  // Its `lookup` knows the checked addresses only; an address as host is connected to as it stands.
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
  let method = init.method ?? "GET"
  let body = init.body
  const headers = lowerCase(init.headers ?? {})
  const most = init.redirects ?? DEFAULT_REDIRECTS
  for (let followed = 0; ; followed++) {
    const authorization = takeCredentials(url)
    if (authorization !== null) headers["authorization"] ??= authorization
    const answer = await request(url, { method, headers, ...(body !== undefined && { body }), signal: init.signal }, policy)
    const location = REDIRECTS.has(answer.status) ? answer.headers.get("location") : null
    if (location === null || most === 0) return answer
    await answer.body?.cancel()
    if (followed === most) throw new RefusedRequest(`${url.origin} redirected more than ${most} times`)
    const next = checkedUrl(resolveLocation(location, url), policy.allow)
    if (next.origin !== url.origin) for (const name of [...CREDENTIALS, ...(init.private ?? [])]) delete headers[name]
    if (answer.status === 303 ? method !== "HEAD" : method === "POST" && answer.status < 307) {
      method = "GET"
      body = undefined
      for (const name of OF_BODY) delete headers[name]
    }
    init.redirected?.(answer.status, next)
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
    if (cause instanceof RefusedRequest) throw cause
    // By the list of the Fetch standard: mail, DNS and others that a request could be mistaken for a message of.
    if (cause instanceof Error && cause.message === "bad port") {
      throw new RefusedRequest(`port ${url.port} belongs to another protocol, and requests to it are refused`)
    }
    throw error
  }
}

// -- addresses -------------------------------------------------------------------------------------------------------------------

const systemResolve = (host: string): Promise<Address[]> => lookup(host, { all: true, order: "verbatim" })

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

const portOf = (port: string, protocol: string): number => Number(port) || (protocol === "https:" ? 443 : 80)

const plainHost = (hostname: string): string => hostname.replace(/^\[(.+)\]$/, "$1").replace(/\.$/, "")

const addressesOf = (host: string, resolve: (host: string) => Promise<Address[]>): Promise<Address[]> | Address[] =>
  isIP(host) === 0 ? resolve(host) : [{ address: host, family: isIP(host) }]

const reachable = (allow: AllowList, host: string, port: number, addresses: Address[]): Address[] => {
  if (allow.allowsHost(host, port)) return addresses
  if (METADATA.has(host)) throw refused(host, host, "a metadata service of a cloud")
  const checked = addresses.filter(({ address }) => refusalOf(address) === null || allow.allowsAddress(address, port))
  const [first] = addresses
  if (checked.length > 0) return checked
  if (first === undefined) throw new Error(`${host} has no address`)
  throw refused(host, first.address, refusalOf(first.address) ?? "no public address")
}

const refused = (host: string, address: string, what: string): RefusedRequest => {
  const shown = host === address ? `${host} is` : `${host} is ${address},`
  return new RefusedRequest(
    `${shown} ${what}, which requests must not reach; if this one may, add "${host}" to http_allow in ork.yaml (ORK_HTTP_ALLOW)`,
  )
}

const fixedLookup =
  (addresses: Address[]): LookupFunction =>
  (_host, options, done) => {
    const [first] = addresses
    if (options.all === true) done(null, addresses)
    else if (first !== undefined) done(null, first.address, first.family)
  }

const within = async <T>(ms: number, work: Promise<T> | T, problem: string): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${problem} within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

// -- URLs ------------------------------------------------------------------------------------------------------------------------

/** What can be told from the text alone. An address is checked again when it is connected to. */
const checkedUrl = (text: string, allow: AllowList): URL => {
  if (!URL.canParse(text)) throw new RefusedRequest("the address is no URL such as https://example.org/")
  const url = new URL(text)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new RefusedRequest(`${url.protocol} addresses are not for requests; only http: and https: are`)
  }
  const host = plainHost(url.hostname)
  if (isIP(host) === 4 && !text.includes(host)) {
    throw new RefusedRequest(`the host of ${url.origin} is written in a way that hides its address; write ${host}`)
  }
  if (isIP(host) !== 0) reachable(allow, host, portOf(url.port, url.protocol), [{ address: host, family: isIP(host) }])
  return url
}

const resolveLocation = (location: string, base: URL): string => {
  if (!URL.canParse(location, base.href)) throw new RefusedRequest(`${base.origin} redirected to what is no URL`)
  // An absolute one is judged as it was written.
  return /^[a-z][a-z0-9+.-]*:/i.test(location) ? location : new URL(location, base.href).href
}

const takeCredentials = (url: URL): string | null => {
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
