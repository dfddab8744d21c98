// Turns the credential of a request into a caller. Looks a key up by its hash, remembers it for a few seconds, and slows guessing
// down. Removing a key through this server takes effect at once, through another within those seconds.

import type { FastifyRequest } from "fastify"
import type { KeyRow } from "../../store/contract/keys.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type { Clock } from "../../core/model/ports.ts"
import { isTokenOf, workerOf } from "../../engine/workers/credentials.ts"
import { type Caller, hashKey, sameText } from "./auth.ts"
import { ApiError, conflict } from "../http/errors.ts"
import { ExpiringCache } from "../http/expiring-cache.ts"
import type { ApiConfig } from "../http/ports.ts"
import { cookieOf, OWN_KEY, type SignIns } from "./sign-ins.ts"
import { Throttle } from "./throttle.ts"

const KEYS = 1000
const KEY_MS = 5000
const FAILURES_PER_MINUTE = 20
/** `last_used_at` may lag by this much. */
const TOUCH_MS = 30_000

const OWN: readonly ["admin"] = ["admin"]
const WORKER: readonly ["worker"] = ["worker"]

export const missingKey = (message: string): ApiError =>
  new ApiError("UNAUTHORIZED", message, { headers: { "www-authenticate": 'Bearer realm="ork"' } })

export class Authenticator {
  readonly #store: ServerStore
  readonly #clock: Clock
  readonly #signIns: SignIns
  readonly #ownHash: string
  readonly #known: ExpiringCache<KeyRow | null>
  readonly #workers: ExpiringCache<string | null>
  readonly #throttle: Throttle
  readonly #used = new Set<string>()
  #cancelTouch: (() => void) | null = null

  constructor(store: ServerStore, clock: Clock, signIns: SignIns, config: ApiConfig) {
    this.#store = store
    this.#clock = clock
    this.#signIns = signIns
    this.#ownHash = hashKey(config.apiKey)
    this.#known = new ExpiringCache(KEYS, KEY_MS, () => clock.now())
    this.#workers = new ExpiringCache(KEYS, KEY_MS, () => clock.now())
    this.#throttle = new Throttle(config.failuresPerMinute ?? FAILURES_PER_MINUTE, () => clock.now())
  }

  /** Throws UNAUTHORIZED or RATE_LIMITED. Gives the caller at once where it can. */
  authenticate(request: FastifyRequest): Caller | Promise<Caller> {
    const key = keyOf(request)
    const worker = key === null ? null : workerOf(key)
    if (worker !== null) return this.#byWorker(request.ip, worker, key!)
    if (key !== null) return this.#byHash(request.ip, hashKey(key), "key")
    const session = cookieOf(request.headers.cookie)
    if (session === null) {
      throw missingKey("this needs an API key: send it as X-API-Key or as Authorization: Bearer KEY")
    }
    const subject = this.#signIns.subjectOf(session)
    if (subject === null) throw missingKey("the session is over; sign in again")
    if (subject === OWN_KEY) return { keyId: null, scopes: OWN, via: "cookie" }
    return this.#byHash(request.ip, subject, "cookie")
  }

  /** The subject of a session for this key; throws as `caller` does. */
  async subjectOf(address: string, key: string): Promise<string> {
    const hash = hashKey(key)
    await this.#byHash(address, hash, "key")
    return sameText(hash, this.#ownHash) ? OWN_KEY : hash
  }

  /** A token that was no good counts as a wrong key. */
  recordFailure(address: string): void {
    this.#throttle.recordFailure(address)
  }

  checkThrottle(address: string): void {
    const seconds = this.#throttle.secondsToWait(address, "")
    if (seconds > 0) throw tooMany(seconds)
  }

  /** A key was removed or made: look again. */
  clearCache(): void {
    this.#known.clear()
  }

  async close(): Promise<void> {
    this.#cancelTouch?.()
    await this.#touch()
  }

  #byHash(address: string, hash: string, via: "key" | "cookie"): Caller | Promise<Caller> {
    const seconds = this.#throttle.secondsToWait(address, hash)
    if (seconds > 0) throw tooMany(seconds)
    if (sameText(hash, this.#ownHash)) {
      this.#throttle.recordSuccess(address, hash)
      return { keyId: null, scopes: OWN, via }
    }
    const known = this.#known.get(hash)
    return known === undefined ? this.#look(address, hash, via) : this.#accept(address, hash, via, known)
  }

  /**
   * A worker that was given up on is told so, and registers again. Its token is new at each registration and cannot be guessed, so
   * a right one counts also where its neighbours' mistakes are slowed down: its lease could not wait.
   */
  async #byWorker(address: string, worker: HolderId, token: string): Promise<Caller> {
    let stored = this.#workers.get(worker)
    if (stored === undefined) this.#workers.set(worker, (stored = await this.#store.workerToken(worker)))
    if (stored === null) throw conflict(`the worker ${worker} was given up on, or has left: register again`)
    if (!isTokenOf(stored, token)) {
      this.checkThrottle(address)
      this.#throttle.recordFailure(address)
      throw missingKey("the worker's token is wrong")
    }
    return { keyId: null, scopes: WORKER, via: "key", worker }
  }

  async #look(address: string, hash: string, via: "key" | "cookie"): Promise<Caller> {
    const row = await this.#store.findKey(hash)
    this.#known.set(hash, row)
    return this.#accept(address, hash, via, row)
  }

  #accept(address: string, hash: string, via: "key" | "cookie", row: KeyRow | null): Caller {
    if (row === null) {
      this.#throttle.recordFailure(address)
      throw missingKey("the API key is not known here; it may have been removed")
    }
    this.#throttle.recordSuccess(address, hash)
    this.#used.add(row.id)
    this.#cancelTouch ??= this.#clock.after(TOUCH_MS, () => void this.#touch())
    return { keyId: row.id, scopes: row.scopes, via }
  }

  async #touch(): Promise<void> {
    this.#cancelTouch = null
    const ids = [...this.#used]
    this.#used.clear()
    // Not worth failing anything: the next use tells it again.
    if (ids.length > 0) await this.#store.touchKeys(ids).catch(() => undefined)
  }
}

const tooMany = (seconds: number): ApiError =>
  new ApiError("RATE_LIMITED", `too many wrong keys from this address; try again in ${seconds} s`, {
    headers: { "retry-after": String(seconds) },
  })

const keyOf = (request: FastifyRequest): string | null => {
  const { "x-api-key": header, authorization } = request.headers
  if (typeof header === "string" && header !== "") return header
  if (authorization === undefined) return null
  const match = /^Bearer +(\S+) *$/i.exec(authorization)
  if (match === null) throw missingKey("the Authorization header is not of the form Bearer KEY")
  return match[1]!
}
