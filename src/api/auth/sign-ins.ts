// Signs browsers in: exchanges the token of a sign-in link, which works once, for a signed session cookie. The signing key is derived
// from the server's own key, so that a session outlives a restart and is valid on every server with that key. A session names the API
// key that it was created with and ends when that key is removed.

import { createHmac } from "node:crypto"
import type { Random } from "../../core/model/ports.ts"
import { equalText } from "../../protocol/wire/signature.ts"
import { ExpiringCache } from "../http/expiring-cache.ts"

const COOKIE = "ork_session"
export const SESSION_SECONDS = 7 * 86_400
const LINK_MS = 3_600_000
const MAX_LINKS = 1000

/** Subject of sessions of the server's own key, which has no hash in the store. */
export const OWN_KEY = "server"

export class SignIns {
  readonly #secret: string
  readonly #now: () => number
  readonly #random: Random
  readonly #links: ExpiringCache<string>

  constructor(apiKey: string, now: () => number, random: Random) {
    this.#secret = createHmac("sha256", apiKey).update("ork sessions").digest("hex")
    this.#now = now
    this.#random = random
    this.#links = new ExpiringCache(MAX_LINKS, LINK_MS, now)
  }

  /** Creates a token for `/ui/sign-in?token=…`, valid once within an hour. `subject` is the hash of a key, or OWN_KEY. */
  newToken(subject: string = OWN_KEY): string {
    const token = this.#random.hex128() + this.#random.hex128()
    this.#links.set(token, subject)
    return token
  }

  /** Consumes a token and returns its subject, or null when the token is unknown, used or expired. */
  redeem(token: string): string | null {
    const subject = this.#links.get(token) ?? null
    this.#links.delete(token)
    return subject
  }

  /** Returns the cookie value of a new session. */
  newSession(subject: string): string {
    const until = Math.floor(this.#now() / 1000) + SESSION_SECONDS
    const payload = `${subject}.${until}`
    return `${payload}.${this.#sign(payload)}`
  }

  /** Returns the subject of a session, or null when the session is forged, malformed or expired. */
  subjectOf(session: string): string | null {
    const [subject = "", until = "", signature = "", ...more] = session.split(".")
    if (more.length > 0 || !/^\d{1,12}$/.test(until)) return null
    if (!equalText(signature, this.#sign(`${subject}.${until}`))) return null
    return Number(until) * 1000 > this.#now() ? subject : null
  }

  #sign(payload: string): string {
    return createHmac("sha256", this.#secret).update(payload).digest("hex")
  }
}

/** Returns the session of a Cookie header, or null. */
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
