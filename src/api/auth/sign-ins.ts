// Signs browsers in: exchanges the token of a sign-in link, which works once, or a key for a session. The cookie is a random text; the
// store keeps its hash, so that a session is valid on every server and ends on all of them when its user signs out.

import type { Random } from "../../core/model/ports.ts"
import type { KeyStore } from "../../store/contract/keys.ts"
import { ExpiringCache } from "../shared/expiring-cache.ts"
import { hashKey } from "./auth.ts"
import type { User } from "./oidc.ts"

const COOKIE = "ork_session"
const SESSION_SECONDS = 7 * 86_400
export const LINK_MS = 3_600_000
const MAX_LINKS = 1000

const USER_SECONDS = 12 * 3600

/**
 * Owner of a session: the server's own key or another key by the hash of its secret, which ends its sessions when it changes; or a
 * user.
 */
export type Subject = { server: string } | { key: string } | { user: User }

export interface SignInsOptions {
  store: Pick<KeyStore, "createSession" | "findSession" | "removeSession">
  now(): number
  random: Random
}

export class SignIns {
  readonly #options: SignInsOptions
  readonly #links: ExpiringCache<Subject>

  constructor(options: SignInsOptions) {
    this.#options = options
    this.#links = new ExpiringCache(MAX_LINKS, LINK_MS, options.now)
  }

  /** Creates a token for `/ui/sign-in?token=…`, valid once within an hour. */
  newToken(subject: Subject): string {
    const token = this.#secret()
    this.#links.set(token, subject)
    return token
  }

  /** Consumes a token and returns its subject, or null when the token is unknown, used or expired. */
  redeem(token: string): Subject | null {
    const subject = this.#links.get(token) ?? null
    this.#links.delete(token)
    return subject
  }

  /** Starts a session and returns the value of its cookie. */
  async start(subject: Subject): Promise<string> {
    const session = this.#secret()
    // The session of a user is shorter: the provider is asked for the user's groups only at sign-in.
    const seconds = "user" in subject ? USER_SECONDS : SESSION_SECONDS
    const row = { hash: hashKey(session), subject: JSON.stringify(subject), expiresInMs: seconds * 1000 }
    await this.#options.store.createSession(row)
    return session
  }

  /** Returns the subject of a session by the hash of its cookie, or null when it is unknown, over or expired. */
  async find(hash: string): Promise<Subject | null> {
    const found = await this.#options.store.findSession(hash)
    return found === null ? null : (JSON.parse(found) as Subject)
  }

  end(hash: string): Promise<void> {
    return this.#options.store.removeSession(hash)
  }

  #secret(): string {
    return this.#options.random.hex128() + this.#options.random.hex128()
  }
}

export const cookieOf = (header: string | undefined): string | null => {
  for (const part of header?.split(";") ?? []) {
    const [name, value] = part.trim().split("=", 2)
    if (name === COOKIE && value !== undefined && value !== "") return value
  }
  return null
}

/** Returns the `Set-Cookie` header of a session. null ends the session. */
export const setCookie = (session: string | null, secure: boolean): string =>
  [
    `${COOKIE}=${session ?? ""}`,
    "Path=/",
    "HttpOnly",
    "SameSite=Strict",
    `Max-Age=${session === null ? 0 : SESSION_SECONDS}`,
    ...(secure ? ["Secure"] : []),
  ].join("; ")
