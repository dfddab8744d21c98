// Callers, and the decision about what they may do. `trigger` includes `read`, `author` includes `trigger`, `admin` includes every scope,
// `worker` includes only itself. A grant can be limited to some workflows.

import { createHash } from "node:crypto"
import type { HolderId } from "../../core/model/ids.ts"
import { covers, type Limited, type LimitedWorkflow } from "../../core/rules/access/permissions.ts"
import type { WorkflowLimits } from "../../core/settings/workflow-limits.ts"
import type { KeyScope } from "../../store/contract/keys.ts"

/** Rights of a key, or of a user by one role. */
export interface Grant {
  scopes: readonly KeyScope[]
  /** null: all workflows, and everything that belongs to none: jobs, queues, workers, keys. */
  limits: WorkflowLimits | null
}

export interface Caller {
  /** The key, and the hash of its secret; null: the server's own key, a user, a worker, or an anonymous caller. */
  key: { id: string; hash: string } | null
  /** Name of the key or user, as views and the audit log show it. */
  name: string
  grants: readonly Grant[]
  /** How the credential was sent. Changes with a cookie are also checked for their origin. */
  via: "key" | "cookie" | "none"
  /** Queues that workers of this key may serve; null: all. */
  queues: readonly string[] | null
  /** Set for a user who signed in through OpenID Connect: the provider's id. */
  user?: string
  /** Set for the token of a worker, which may act only for this worker. */
  worker?: HolderId
}

export const ANONYMOUS: Caller = { key: null, name: "", grants: [], via: "none", queues: [] }

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

type Rights = Pick<Caller, "grants">

/** Decides whether a caller may do something with a workflow; null: with the server as a whole. */
export const may = (caller: Rights, action: KeyScope, workflow: LimitedWorkflow | null): boolean =>
  grantsFor(caller, action).some(({ limits }) => limits === null || (workflow !== null && covers(limits, workflow)))

/** Returns whether a caller may do something with at least some workflows. */
export const mayCall = (caller: Rights, action: KeyScope): boolean => grantsFor(caller, action).length > 0

/** Returns the limits of a list that a caller may read. */
export const listLimits = (caller: Rights): Limited => {
  const grants = grantsFor(caller, "read")
  return grants.some(({ limits }) => limits === null) ? {} : { only: grants.map(({ limits }) => limits!) }
}

/** Returns the scopes that a caller has for a workflow; null: for the server as a whole; not given: for some workflow. */
export const scopesFor = (caller: Rights, workflow?: LimitedWorkflow | null): KeyScope[] => {
  const grants = caller.grants.filter(
    ({ limits }) => limits === null || workflow === undefined || (workflow !== null && covers(limits, workflow)),
  )
  return [...new Set(grants.flatMap(({ scopes }) => scopes))]
}

const grantsFor = ({ grants }: Rights, action: KeyScope): Grant[] =>
  grants.filter(({ scopes }) => scopes.some((scope) => (SATISFIED_BY[action] as readonly KeyScope[]).includes(scope)))

/** Hashes a key with one round of SHA-256, which is enough for keys of 256 random bits. */
export const hashKey = (key: string): string => createHash("sha256").update(key).digest("hex")
