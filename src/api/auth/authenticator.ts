// Turns the credential of a request into a caller. Looks a key up by its hash and caches it for a few seconds. The removal of a key
// through this server takes effect immediately, through another server when the cached entry expires.

import type { FastifyRequest } from "fastify"
import type { KeyRow } from "../../store/contract/keys.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type { Clock } from "../../core/model/ports.ts"
import { isTokenOf, workerOf } from "../../engine/workers/credentials.ts"
import { type Caller, hashKey } from "./auth.ts"
import { equalText } from "../../protocol/wire/signature.ts"
import { conflict, rateLimited, unauthorized } from "../http/errors.ts"
import { ExpiringCache } from "../http/expiring-cache.ts"
import type { ApiConfig } from "../http/ports.ts"
import { cookieOf, OWN_KEY, type SignIns } from "./sign-ins.ts"
import { Throttle } from "./throttle.ts"

const MAX_CACHED = 1000
const CACHED_MS = 5000
const FAILURES_PER_MINUTE = 20
/** Maximum lag of `last_used_at`. */
const TOUCH_MS = 30_000

const ADMIN_SCOPES: readonly ["admin"] = ["admin"]
const WORKER_SCOPES: readonly ["worker"] = ["worker"]

/** Members of the store that authentication uses. */
type CredentialStore = Pick<ServerStore, "findKey" | "touchKeys" | "workerToken">

export class Authenticator {
  readonly #store: CredentialStore
  readonly #clock: Clock
  readonly #signIns: SignIns
  readonly #ownHash: string
  readonly #keys: ExpiringCache<KeyRow | null>
  readonly #workerTokens: ExpiringCache<string | null>
  readonly #throttle: Throttle
  readonly #usedKeys = new Set<string>()
  #cancelTouchKeys: (() => void) | null = null

  constructor(store: CredentialStore, clock: Clock, signIns: SignIns, config: ApiConfig) {
    this.#store = store
    this.#clock = clock
    this.#signIns = signIns
    this.#ownHash = hashKey(config.apiKey)
    this.#keys = new ExpiringCache(MAX_CACHED, CACHED_MS, () => clock.monotonic())
    this.#workerTokens = new ExpiringCache(MAX_CACHED, CACHED_MS, () => clock.monotonic())
    this.#throttle = new Throttle(config.failuresPerMinute ?? FAILURES_PER_MINUTE, () => clock.monotonic())
  }

  /** Returns the caller, synchronously when the credential is cached. Throws UNAUTHORIZED or RATE_LIMITED. */
  authenticate(request: FastifyRequest): Caller | Promise<Caller> {
    const key = keyOf(request)
    const worker = key === null ? null : workerOf(key)
    if (worker !== null) return this.#byWorker(request.ip, worker, key!)
    if (key !== null) return this.#byHash(request.ip, hashKey(key), "key")
    const session = cookieOf(request.headers.cookie)
    if (session === null) {
      throw unauthorized("an API key is required: send it as X-API-Key or as Authorization: Bearer KEY")
    }
    const subject = this.#signIns.subjectOf(session)
    if (subject === null) throw unauthorized("the session has expired; sign in again")
    if (subject === OWN_KEY) return { keyId: null, scopes: ADMIN_SCOPES, via: "cookie" }
    return this.#byHash(request.ip, subject, "cookie")
  }

  /** Returns the subject of a session for this key. Throws like `authenticate`. */
  async subjectOf(address: string, key: string): Promise<string> {
    const hash = hashKey(key)
    await this.#byHash(address, hash, "key")
    return equalText(hash, this.#ownHash) ? OWN_KEY : hash
  }

  /** Counts an invalid token as a wrong key of this address. */
  recordFailure(address: string): void {
    this.#throttle.recordFailure(address)
  }

  /** Throws RATE_LIMITED while the address has to wait. */
  checkThrottle(address: string): void {
    const seconds = this.#throttle.secondsToWait(address, "")
    if (seconds > 0) throw rateLimited(seconds)
  }

  /** Called when a key was created or removed. */
  clearCache(): void {
    this.#keys.clear()
  }

  async close(): Promise<void> {
    this.#cancelTouchKeys?.()
    await this.#touchKeys()
  }

  #byHash(address: string, hash: string, via: "key" | "cookie"): Caller | Promise<Caller> {
    const seconds = this.#throttle.secondsToWait(address, hash)
    if (seconds > 0) throw rateLimited(seconds)
    if (equalText(hash, this.#ownHash)) {
      this.#throttle.recordSuccess(address, hash)
      return { keyId: null, scopes: ADMIN_SCOPES, via }
    }
    const cached = this.#keys.get(hash)
    return cached === undefined ? this.#lookUp(address, hash, via) : this.#accept(address, hash, via, cached)
  }

  /**
   * Authenticates a worker. A correct token is accepted also while the address is throttled: tokens are random, and the worker's
   * lease would expire. Throws CONFLICT when the worker was evicted, so that it registers again.
   */
  async #byWorker(address: string, worker: HolderId, token: string): Promise<Caller> {
    let stored = this.#workerTokens.get(worker)
    if (stored === undefined) this.#workerTokens.set(worker, (stored = await this.#store.workerToken(worker)))
    if (stored === null) throw conflict(`the worker ${worker} was evicted or has left; register again`)
    if (!isTokenOf(stored, token)) {
      this.checkThrottle(address)
      this.#throttle.recordFailure(address)
      throw unauthorized("the worker's token is wrong")
    }
    return { keyId: null, scopes: WORKER_SCOPES, via: "key", worker }
  }

  async #lookUp(address: string, hash: string, via: "key" | "cookie"): Promise<Caller> {
    const row = await this.#store.findKey(hash)
    this.#keys.set(hash, row)
    return this.#accept(address, hash, via, row)
  }

  #accept(address: string, hash: string, via: "key" | "cookie", row: KeyRow | null): Caller {
    if (row === null) {
      this.#throttle.recordFailure(address)
      throw unauthorized("the API key is unknown; it may have been removed")
    }
    this.#throttle.recordSuccess(address, hash)
    this.#usedKeys.add(row.id)
    this.#cancelTouchKeys ??= this.#clock.after(TOUCH_MS, () => void this.#touchKeys())
    return { keyId: row.id, scopes: row.scopes, via }
  }

  async #touchKeys(): Promise<void> {
    this.#cancelTouchKeys = null
    const ids = [...this.#usedKeys]
    this.#usedKeys.clear()
    // A failure is ignored: the next use of the key updates the time again.
    if (ids.length > 0) await this.#store.touchKeys(ids).catch(() => undefined)
  }
}

/** Returns the API key of a request, or null. */
const keyOf = (request: FastifyRequest): string | null => {
  const { "x-api-key": header, authorization } = request.headers
  if (typeof header === "string" && header !== "") return header
  if (authorization === undefined) return null
  const match = /^Bearer +(\S+) *$/i.exec(authorization)
  if (match === null) throw unauthorized("the Authorization header is not of the form Bearer KEY")
  return match[1]!
}
