// The signed-in session and the scopes of its key; buttons that the key does not allow are not rendered.

import { createContext, use } from "react"
import type { Scope, Session } from "../api/types.ts"

export const SessionContext = createContext<Session | null>(null)

const ALLOWED_BY: Record<Scope, readonly Scope[]> = {
  read: ["read", "trigger", "author", "admin"],
  trigger: ["trigger", "author", "admin"],
  author: ["author", "admin"],
  worker: ["worker", "admin"],
  admin: ["admin"],
}

export const allows = (scopes: readonly Scope[], needed: Scope): boolean =>
  scopes.some((scope) => ALLOWED_BY[needed].includes(scope))

const useSession = (): Session => {
  const session = use(SessionContext)
  if (session === null) throw new Error("useSession needs a signed-in session above this component")
  return session
}

/** Reports whether the key has this scope. */
export const useMay = (needed: Scope): boolean => allows(useSession().scopes, needed)
