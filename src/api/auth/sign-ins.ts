// How a browser gets in: a link with a token that works once, exchanged for a signed cookie. The signature's key comes from the
// server's own key, so a session outlives a restart and holds on every server with that key. A session names its key: when the
// key is removed, the session is over.

import { createHmac } from "node:crypto"
import type { Random } from "../../core/model/ports.ts"
import { sameText } from "./auth.ts"
import { ExpiringCache } from "../http/expiring-cache.ts"

const COOKIE = "ork_session"
export const SESSION_SECONDS = 7 * 86_400
const LINK_MS = 3_600_000
const MAX_LINKS = 1000

/** The server's own key has no hash in the store. */
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

  /** A token for `/ui/sign-in?token=…`, good for one use within an hour. `subject`: the hash of a key, or OWN_KEY. */
  newToken(subject: string = OWN_KEY): string {
    const token = this.#random.hex128() + this.#random.hex128()
    this.#links.set(token, subject)
    return token
  }

  /** The subject of a token, which is used up by this; null: not one, or too late. */
  redeem(token: string): string | null {
    const subject = this.#links.get(token) ?? null
    this.#links.delete(token)
    return subject
  }

  /** The value of a session's cookie. */
  newSession(subject: string): string {
    const until = Math.floor(this.#now() / 1000) + SESSION_SECONDS
    const claim = `${subject}.${until}`
    return `${claim}.${this.#sign(claim)}`
  }

  /** The subject of a session; null: forged, broken or over. */
  subjectOf(session: string): string | null {
    const [subject = "", until = "", signature = "", ...more] = session.split(".")
    if (more.length > 0 || !/^\d{1,12}$/.test(until)) return null
    if (!sameText(signature, this.#sign(`${subject}.${until}`))) return null
    return Number(until) * 1000 > this.#now() ? subject : null
  }

  #sign(claim: string): string {
    return createHmac("sha256", this.#secret).update(claim).digest("hex")
  }
}

export const cookieOf = (header: string | undefined): string | null => {
  for (const part of header?.split(";") ?? []) {
    const [name, value] = part.trim().split("=", 2)
    if (name === COOKIE && value !== undefined && value !== "") return value
  }
  return null
}

/** `Set-Cookie` for a session; null ends it. */
export const setCookie = (session: string | null, secure: boolean): string =>
  [
    `${COOKIE}=${session ?? ""}`,
    "Path=/",
    "HttpOnly",
    "SameSite=Strict",
    `Max-Age=${session === null ? 0 : SESSION_SECONDS}`,
    ...(secure ? ["Secure"] : []),
  ].join("; ")
