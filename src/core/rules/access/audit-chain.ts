// The chain of the audit log: the hash of an entry covers its fields and the hash of the entry before it, so that a changed, removed or
// inserted entry breaks the chain at its place.

import { createHash } from "node:crypto"
import type { AuditFields } from "../../model/audit-fields.ts"

export interface ChainedEntry extends AuditFields {
  seq: number
  /** null: written by a version without the chain. */
  hash: string | null
}

/** Returns the hash of an entry. `previous`: the hash of the entry before it; null for the first. */
export const auditHash = (previous: string | null, fields: AuditFields): string => {
  const { at, keyId, actor, subject, address, action, target, result, details, request } = fields
  // Entries of earlier versions have neither a subject nor a request.
  const later = [subject ?? null, request ?? null]
  const rest = later.every((field) => field === null) ? [] : later
  const text = JSON.stringify([previous, at, keyId, actor, address, action, target, result, details, ...rest])
  return createHash("sha256").update(text).digest("hex")
}

/**
 * Returns the number of the first entry that does not continue the chain, or null. `before` is the last entry of the page before, and
 * null on the first page: the first entry of a log whose oldest entries have expired is taken as it is.
 */
export const brokenEntry = (before: ChainedEntry | null, entries: readonly ChainedEntry[]): number | null => {
  let previous = before
  for (const entry of entries) {
    if (entry.hash === null && previous !== null && previous.hash !== null) return entry.seq
    const isStart = previous === null || previous.hash === null
    if (entry.hash !== null && !isStart && auditHash(previous!.hash, entry) !== entry.hash) return entry.seq
    previous = entry
  }
  return null
}
