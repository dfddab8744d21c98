// Entries of the audit log that a store writes by itself.

import type { NewAuditEntry } from "../contract/keys.ts"

/** Records the removal of expired entries, which the chain cannot tell from a forged one. */
export const trimEntry = (count: number): NewAuditEntry => ({
  keyId: null,
  actor: null,
  address: null,
  action: "audit.trim",
  target: "audit",
  result: "ok",
  details: `${count} expired entries removed`,
})
