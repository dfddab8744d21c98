// The action of a request, as the audit log records it. The API opens a scope around a handler. The first transaction of the
// store inside it writes the entry, so that the change and its entry are committed together; `created_by` of new rows comes from it too.

import { AsyncLocalStorage } from "node:async_hooks"
import type { NewAuditEntry } from "./keys.ts"

/** Description of an action. The functions get the result of its transaction; `never` accepts functions of any result. */
export interface ActionDescription {
  target?: string | ((result: never) => string)
  details?: string | ((result: never) => string)
  /** Replaces the caller of the request, for example by the key that signs in. */
  actor?: string
  subject?: string
  keyId?: string | null
  /** Returns whether the transaction made the change. Default: it returned neither false nor null nor a rejection. */
  made?: (result: never) => boolean
}

interface AuditScope {
  entry: NewAuditEntry
  description: ActionDescription
  taken: boolean
}

const scopes = new AsyncLocalStorage<AuditScope>()

/** Runs `work` in a scope. Returns its result, and the entry if no transaction has written it. */
export const withAudit = async <T>(
  entry: NewAuditEntry,
  work: () => Promise<T> | T,
): Promise<{ result: T; left: NewAuditEntry | null }> => {
  const scope: AuditScope = { entry, description: {}, taken: false }
  try {
    const result = await scopes.run(scope, work)
    return { result, left: scope.taken ? null : complete(scope, undefined) }
  } finally {
    // Work that the handler did not await may go on in this scope: its transactions make other changes.
    scope.taken = true
  }
}

/** Describes the action of the present scope, before it is done. */
export const describeAction = (description: ActionDescription): void => {
  const scope = scopes.getStore()
  if (scope !== undefined) Object.assign(scope.description, description)
}

/** Replaces an address in the target of the present change by the id that it stands for. */
export const renameTarget = (address: string, id: string): void => {
  const scope = scopes.getStore()
  if (scope !== undefined) scope.entry = { ...scope.entry, target: scope.entry.target.replace(address, id) }
}

/** Runs `work` outside of the present scope. Timers do: what they run later is not part of the request that set them. */
export const leaveAudit = <T>(work: () => T): T => scopes.exit(work)

/** Returns the name of the key or user that makes the present change; null without one. */
export const currentActor = (): string | null => scopes.getStore()?.entry.actor ?? null

/** Returns whether the next transaction writes an audit entry (`takeAuditEntry`). */
export const hasPendingAuditEntry = (): boolean => scopes.getStore()?.taken === false

/**
 * Takes the audit entry of the present scope for a transaction. Returns null without a scope, or when it was taken before. The result is to
 * be called with what the transaction returns; it returns null when the transaction changed nothing.
 */
export const takeAuditEntry = (): ((result: unknown) => NewAuditEntry | null) | null => {
  const scope = scopes.getStore()
  if (scope === undefined || scope.taken) return null
  scope.taken = true
  return (result) => {
    const { made = isChange } = scope.description
    scope.taken = made(result as never)
    return scope.taken ? complete(scope, result) : null
  }
}

const isChange = (result: unknown): boolean =>
  result !== false && result !== null && !(typeof result === "object" && "rejected" in result)

const complete = ({ entry, description }: AuditScope, result: unknown): NewAuditEntry => ({
  ...entry,
  keyId: description.keyId === undefined ? entry.keyId : description.keyId,
  actor: description.actor ?? entry.actor,
  subject: description.subject ?? entry.subject,
  target: textOf(description.target, result) ?? entry.target,
  details: textOf(description.details, result) ?? entry.details,
})

/** Returns the described text. A function is not called without a result. */
const textOf = (described: ActionDescription["target"], result: unknown): string | null =>
  typeof described === "function" ? (result === undefined ? null : described(result as never)) : (described ?? null)
