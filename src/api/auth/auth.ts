// Callers and scopes. `trigger` includes `read`, `author` includes `trigger`, `admin` includes every scope, `worker` includes only itself.

import { createHash } from "node:crypto"
import type { HolderId } from "../../core/model/ids.ts"
import type { KeyScope } from "../../store/contract/keys.ts"

export interface Caller {
  /** null: the server's own key, or an anonymous caller of a route that requires no key. */
  keyId: string | null
  /** Name of the key or user, as views and the audit log show it. */
  name: string
  scopes: readonly KeyScope[]
  /** How the credential was sent. Changes with a cookie are also checked for their origin. */
  via: "key" | "cookie" | "none"
  /** Queues that workers of this key may serve; null: all. */
  queues: readonly string[] | null
  /** Set for a user who signed in through OpenID Connect: the provider's id. */
  user?: string
  /** Set for the token of a worker, which may act only for this worker. */
  worker?: HolderId
}

export const ANONYMOUS: Caller = { keyId: null, name: "", scopes: [], via: "none", queues: [] }

/** Name of the server's own key. */
export const OWN_KEY_NAME = "admin"

/** Scopes of a key that satisfy the scope of a route. */
const SATISFIED_BY = {
  read: ["read", "trigger", "author", "admin"],
  trigger: ["trigger", "author", "admin"],
  author: ["author", "admin"],
  worker: ["worker", "admin"],
  admin: ["admin"],
} as const satisfies Record<KeyScope, readonly KeyScope[]>

export const mayCall = (caller: Pick<Caller, "scopes">, required: KeyScope): boolean =>
  caller.scopes.some((scope) => (SATISFIED_BY[required] as readonly KeyScope[]).includes(scope))

/** Hashes a key with one round of SHA-256, which is enough for keys of 256 random bits. */
export const hashKey = (key: string): string => createHash("sha256").update(key).digest("hex")
