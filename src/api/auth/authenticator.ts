// Turns the credential of a request into a caller. Looks keys, sessions and tokens up by their hashes, and caches them so briefly that
// the removal of a key or the end of a session takes effect within a second on every server.

import type { FastifyRequest } from "fastify"
import type { KeyRow } from "../../store/contract/keys.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type { Clock } from "../../core/model/ports.ts"
import { isTokenOf, workerOf } from "../../engine/workers/credentials.ts"
import { describeChange } from "../../store/contract/audit-scope.ts"
import { type Caller, hashKey, OWN_KEY_NAME } from "./auth.ts"
import { equalText } from "../../protocol/wire/signature.ts"
import { type ApiError, conflict, rateLimited, unauthorized } from "../shared/errors.ts"
import { ExpiringCache } from "../shared/expiring-cache.ts"
import { ROLE_SCOPES, type User } from "./oidc.ts"
import { cookieOf, type SignIns, type Subject } from "./sign-ins.ts"
import { Throttle } from "./throttle.ts"

const MAX_CACHED = 1000
export const CACHED_MS = 500
const FAILURES_PER_MINUTE = 20
/** Maximum lag of `last_used_at`. */
const TOUCH_MS = 30_000

const ADMIN_SCOPES: readonly ["admin"] = ["admin"]
const WORKER_SCOPES: readonly ["worker"] = ["worker"]

type Via = Exclude<Caller["via"], "none">

/** Members of the store that authentication uses. */
type CredentialStore = Pick<ServerStore, "findKey" | "touchKeys" | "workerToken">

export class Authenticator {
  readonly #store: CredentialStore
  readonly #clock: Clock
  readonly #signIns: SignIns
  readonly #ownHash: string
  /** Keys by hash and by id. */
  readonly #keys: ExpiringCache<KeyRow | null>
  readonly #sessions: ExpiringCache<Subject | null>
  readonly #workerTokens: ExpiringCache<string | null>
  readonly #throttle: Throttle
  readonly #usedKeys = new Set<string>()
  #cancelTouchKeys: (() => void) | null = null

  constructor(store: CredentialStore, clock: Clock, signIns: SignIns, config: { apiKey: string; failuresPerMinute?: number }) {
    this.#store = store
    this.#clock = clock
    this.#signIns = signIns
    this.#ownHash = hashKey(config.apiKey)
    const now = (): number => clock.monotonic()
    this.#keys = new ExpiringCache(MAX_CACHED, CACHED_MS, now)
    this.#sessions = new ExpiringCache(MAX_CACHED, CACHED_MS, now)
    this.#workerTokens = new ExpiringCache(MAX_CACHED, CACHED_MS, now)
    this.#throttle = new Throttle(config.failuresPerMinute ?? FAILURES_PER_MINUTE, now)
  }

  /** Subject of sessions of the server's own key. */
  get ownSubject(): Subject {
    return { server: this.#ownHash }
  }

  /** Returns the caller, synchronously when its key is cached. Throws UNAUTHORIZED or RATE_LIMITED. */
  authenticate(request: FastifyRequest): Caller | Promise<Caller> {
    const key = keyOf(request)
    const worker = key === null ? null : workerOf(key)
    if (worker !== null) return this.#byWorker(request.ip, worker, key!)
    if (key !== null) return this.#byHash(request.ip, hashKey(key))
    const session = cookieOf(request.headers.cookie)
    if (session === null) {
      throw unauthorized("an API key is required: send it as X-API-Key or as Authorization: Bearer KEY")
    }
    return this.#bySession(request.ip, hashKey(session))
  }

  /** Returns whether the credential of an earlier request is still valid. Assumes so while the store is unavailable. */
  async isStillValid(request: FastifyRequest): Promise<boolean> {
    try {
      await this.authenticate(request)
      return true
    } catch (error) {
      return !(error instanceof Error && "code" in error && (error.code === "UNAUTHORIZED" || error.code === "RATE_LIMITED"))
    }
  }

  /** Returns the subject of a session for this key. Throws like `authenticate`. */
  async subjectOf(address: string, key: string): Promise<{ subject: Subject; caller: Caller }> {
    const caller = await this.#byHash(address, hashKey(key))
    return { subject: caller.keyId === null ? this.ownSubject : { key: caller.keyId }, caller }
  }

  /** Ends the session of a request. Returns its caller; null when the request has no valid session. */
  async endSession(request: FastifyRequest): Promise<Caller | null> {
    const session = cookieOf(request.headers.cookie)
    if (session === null) return null
    const hash = hashKey(session)
    const caller = await Promise.resolve(this.#bySession(request.ip, hash)).catch(() => null)
    if (caller === null) return null
    describeChange({ target: caller.name, actor: caller.name, keyId: caller.keyId })
    await this.#signIns.end(hash)
    this.#sessions.delete(hash)
    return caller
  }

  /** Throws `problem`, the reason why a credential is wrong, and counts it; null: the credential is right. */
  checkProof(address: string, problem: ApiError | null): void {
    if (problem === null) return
    this.checkThrottle(address)
    this.#throttle.recordFailure(address)
    throw problem
  }

  /** Throws RATE_LIMITED while the address has to wait. */
  checkThrottle(address: string): void {
    const seconds = this.#throttle.secondsToWait(address)
    if (seconds > 0) throw rateLimited(seconds)
  }

  /** Called when a key was created, changed or removed. */
  clearCache(): void {
    this.#keys.clear()
    this.#workerTokens.clear()
  }

  async close(): Promise<void> {
    this.#cancelTouchKeys?.()
    await this.#touchKeys()
  }

  #byHash(address: string, hash: string): Caller | Promise<Caller> {
    if (equalText(hash, this.#ownHash)) return ownKey("key")
    const cached = this.#keys.get(hash)
    return cached === undefined ? this.#lookUp(address, { hash }, "key") : this.#accept(address, "key", cached)
  }

  async #bySession(address: string, hash: string): Promise<Caller> {
    let subject = this.#sessions.get(hash)
    if (subject === undefined) this.#sessions.set(hash, (subject = await this.#signIns.find(hash)))
    if (subject === null || ("server" in subject && !equalText(subject.server, this.#ownHash))) {
      throw unauthorized("the session has ended; sign in again")
    }
    if ("server" in subject) return ownKey("cookie")
    if ("user" in subject) return userCaller(subject.user)
    const cached = this.#keys.get(subject.key)
    return cached === undefined ? this.#lookUp(address, { id: subject.key }, "cookie") : this.#accept(address, "cookie", cached)
  }

  /** Authenticates a worker. Throws CONFLICT when the worker was evicted, so that it registers again. */
  async #byWorker(address: string, worker: HolderId, token: string): Promise<Caller> {
    let stored = this.#workerTokens.get(worker)
    if (stored === undefined) this.#workerTokens.set(worker, (stored = await this.#store.workerToken(worker)))
    if (stored === null) throw conflict(`the worker ${worker} was evicted or has left; register again`)
    this.checkProof(address, isTokenOf(stored, token) ? null : unauthorized("the worker's token is wrong"))
    return { keyId: null, name: `worker ${worker}`, scopes: WORKER_SCOPES, via: "key", queues: [], worker }
  }

  async #lookUp(address: string, by: { hash: string } | { id: string }, via: Via): Promise<Caller> {
    const row = await this.#store.findKey(by)
    this.#keys.set("hash" in by ? by.hash : by.id, row)
    return this.#accept(address, via, row)
  }

  #accept(address: string, via: Via, row: KeyRow | null): Caller {
    this.checkProof(address, row === null ? unauthorized("the API key is unknown; it may have expired or been removed") : null)
    const { id, name, scopes, queues } = row!
    this.#usedKeys.add(id)
    this.#cancelTouchKeys ??= this.#clock.after(TOUCH_MS, () => void this.#touchKeys())
    return { keyId: id, name, scopes, via, queues }
  }

  async #touchKeys(): Promise<void> {
    this.#cancelTouchKeys = null
    const ids = [...this.#usedKeys]
    this.#usedKeys.clear()
    // A failure is ignored: the next use of the key updates the time again.
    if (ids.length > 0) await this.#store.touchKeys(ids).catch(() => undefined)
  }
}

const userCaller = ({ sub, name, role }: User): Caller => ({
  keyId: null,
  name,
  user: sub,
  scopes: ROLE_SCOPES[role],
  via: "cookie",
  queues: [],
})

const ownKey = (via: Via): Caller => ({ keyId: null, name: OWN_KEY_NAME, scopes: ADMIN_SCOPES, via, queues: null })

/** Returns the API key of a request, or null. */
const keyOf = (request: FastifyRequest): string | null => {
  const { "x-api-key": header, authorization } = request.headers
  if (typeof header === "string" && header !== "") return header
  if (authorization === undefined) return null
  const match = /^Bearer +(\S+) *$/i.exec(authorization)
  if (match === null) throw unauthorized("the Authorization header is not of the form Bearer KEY")
  return match[1]!
}
