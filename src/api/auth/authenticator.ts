// Turns the credential of a request into a caller. Looks keys, sessions and tokens up by their hashes, and caches them so briefly that
// the removal of a key or the end of a session takes effect within a second on every server.

import type { FastifyRequest } from "fastify"
import type { KeyRow } from "../../store/contract/keys.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type { Clock } from "../../core/model/ports.ts"
import { isTokenOf, workerOf } from "../../engine/workers/credentials.ts"
import { describeAction } from "../../store/contract/audit-scope.ts"
import { type Caller, type Grant, hashKey, OWN_KEY_NAME } from "./auth.ts"
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

const ADMIN_GRANTS: readonly Grant[] = [{ scopes: ["admin"], limits: null }]
const WORKER_GRANTS: readonly Grant[] = [{ scopes: ["worker"], limits: null }]

type Via = Exclude<Caller["via"], "none">

/** Members of the store that authentication uses. */
type CredentialStore = Pick<ServerStore, "findKey" | "touchKeys" | "workerToken">

export class Authenticator {
  readonly #store: CredentialStore
  readonly #clock: Clock
  readonly #signIns: SignIns
  readonly #ownHash: string
  /** Keys by hash. */
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
    return { subject: caller.key === null ? this.ownSubject : { key: caller.key.hash }, caller }
  }

  /** Ends the session of a request. Returns its caller; null when the request has no valid session. */
  async endSession(request: FastifyRequest): Promise<Caller | null> {
    const session = cookieOf(request.headers.cookie)
    if (session === null) return null
    const hash = hashKey(session)
    const caller = await Promise.resolve(this.#bySession(request.ip, hash)).catch(() => null)
    if (caller === null) return null
    const { name, user, key } = caller
    describeAction({ target: name, actor: name, keyId: key?.id ?? null, ...(user !== undefined && { subject: user }) })
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
    return this.#byStoredHash(address, hash, "key")
  }

  async #bySession(address: string, hash: string): Promise<Caller> {
    let subject = this.#sessions.get(hash)
    if (subject === undefined) this.#sessions.set(hash, (subject = await this.#signIns.find(hash)))
    if (subject === null || ("server" in subject && !equalText(subject.server, this.#ownHash))) {
      throw unauthorized("the session has ended; sign in again")
    }
    if ("server" in subject) return ownKey("cookie")
    if ("user" in subject) return userCaller(subject.user)
    return this.#byStoredHash(address, subject.key, "cookie")
  }

  /** Authenticates a worker. Throws CONFLICT when the worker was evicted, so that it registers again. */
  async #byWorker(address: string, worker: HolderId, token: string): Promise<Caller> {
    let stored = this.#workerTokens.get(worker)
    if (stored === undefined) this.#workerTokens.set(worker, (stored = await this.#store.workerToken(worker)))
    if (stored === null) throw conflict(`the worker ${worker} was evicted or has left; register again`)
    this.checkProof(address, isTokenOf(stored, token) ? null : unauthorized("the worker's token is wrong"))
    return { key: null, name: `worker ${worker}`, grants: WORKER_GRANTS, via: "key", queues: [], worker }
  }

  #byStoredHash(address: string, hash: string, via: Via): Caller | Promise<Caller> {
    const cached = this.#keys.get(hash)
    if (cached !== undefined) return this.#accept(address, cached, { hash, via })
    return this.#store.findKey(hash).then((row) => {
      this.#keys.set(hash, row)
      return this.#accept(address, row, { hash, via })
    })
  }

  #accept(address: string, row: KeyRow | null, { hash, via }: { hash: string; via: Via }): Caller {
    this.checkProof(address, row === null ? unauthorized("the API key is unknown; it may have expired or been removed") : null)
    const { id, name, scopes, queues, limits } = row!
    this.#usedKeys.add(id)
    this.#cancelTouchKeys ??= this.#clock.after(TOUCH_MS, () => void this.#touchKeys())
    return { key: { id, hash }, name, grants: [{ scopes, limits }], via, queues }
  }

  async #touchKeys(): Promise<void> {
    this.#cancelTouchKeys = null
    const ids = [...this.#usedKeys]
    this.#usedKeys.clear()
    // A failure is ignored: the next use of the key updates the time again.
    if (ids.length > 0) await this.#store.touchKeys(ids).catch(() => undefined)
  }
}

const userCaller = ({ sub, name, roles }: User): Caller => ({
  key: null,
  name,
  user: sub,
  grants: roles.map(({ role, limits }) => ({ scopes: ROLE_SCOPES[role], limits })),
  via: "cookie",
  queues: [],
})

const ownKey = (via: Via): Caller => ({ key: null, name: OWN_KEY_NAME, grants: ADMIN_GRANTS, via, queues: null })

/** Returns the API key of a request, or null. */
const keyOf = (request: FastifyRequest): string | null => {
  const { "x-api-key": header, authorization } = request.headers
  if (typeof header === "string" && header !== "") return header
  if (authorization === undefined) return null
  const match = /^Bearer +(\S+) *$/i.exec(authorization)
  if (match === null) throw unauthorized("the Authorization header is not of the form Bearer KEY")
  return match[1]!
}
