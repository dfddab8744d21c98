// The signed-in session and the scopes of its key or user; buttons that these do not allow are not rendered.

import { useQuery } from "@tanstack/react-query"
import { createContext, use } from "react"
import { workflowSessionQuery } from "../api/queries.ts"
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

/** Reports whether the session has this scope for the server as a whole. */
export const useMay = (needed: Scope): boolean => allows(useSession().server_scopes, needed)

/** Reports whether the session has this scope for at least some workflows. */
export const useMayForSome = (needed: Scope): boolean => allows(useSession().scopes, needed)

/** Reports whether the session has this scope for a workflow. Asks the server only when the scopes differ between workflows. */
export const useMayFor = (workflow: string | undefined, needed: Scope): boolean => {
  const { scopes, server_scopes: everywhere } = useSession()
  const differ = allows(scopes, needed) && !allows(everywhere, needed) && scopes.length > 1
  const { data } = useQuery({ ...workflowSessionQuery(workflow ?? ""), enabled: differ && workflow !== undefined })
  return differ ? data !== undefined && allows(data.scopes, needed) : allows(scopes, needed)
}
