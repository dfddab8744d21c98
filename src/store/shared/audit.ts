// The audit log, as far as it is equal in both stores.

import type { NewAuditEntry } from "../contract/keys.ts"

/** Records the removal of expired entries, which the chain cannot tell from a forged one. */
export const trimEntry = (count: number): NewAuditEntry => ({
  keyId: null,
  actor: null,
  subject: null,
  address: null,
  action: "audit.trim",
  target: "audit",
  result: "ok",
  details: `${count} expired entries removed`,
  request: null,
})

/** Returns the pattern of actions on one kind. Runs and jobs have unique ids; a queue may have the name of a workflow. */
export const changePattern = (kind: "workflow" | "run" | "job"): string => (kind === "workflow" ? "workflow.%" : "%")
