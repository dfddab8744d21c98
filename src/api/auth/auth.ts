// Who asks, and what a key may do. read < trigger < admin; worker stands apart; admin may do everything.

import { createHash, timingSafeEqual } from "node:crypto"
import type { HolderId } from "../../core/model/ids.ts"
import type { KeyScope } from "../../store/contract/keys.ts"

export interface Caller {
  /** null: the server's own key, or nobody where no key is needed. */
  keyId: string | null
  scopes: readonly KeyScope[]
  /** By which way the credential came; a cookie needs more care with changes. */
  via: "key" | "cookie" | "none"
  /** Set for the token of a worker, which speaks for itself alone. */
  worker?: HolderId
}

export const NOBODY: Caller = { keyId: null, scopes: [], via: "none" }

/** The scopes that allow what a route asks for. */
const ALLOWED_BY = {
  read: ["read", "trigger", "admin"],
  trigger: ["trigger", "admin"],
  worker: ["worker", "admin"],
  admin: ["admin"],
} as const satisfies Record<KeyScope, readonly KeyScope[]>

export const mayCall = (caller: Caller, needed: KeyScope): boolean =>
  caller.scopes.some((scope) => (ALLOWED_BY[needed] as readonly KeyScope[]).includes(scope))

/** Keys are 256 random bits (the server's own aside), so one round of SHA-256 is enough. */
export const hashKey = (key: string): string => createHash("sha256").update(key).digest("hex")

export const sameText = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
