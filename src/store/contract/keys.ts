// API keys and sessions (both stored as hashes), and the audit log.

import type { AuditFields } from "../../core/model/audit-fields.ts"
import type { ChainedEntry } from "../../core/rules/access/audit-chain.ts"
import type { WorkflowLimits } from "../../core/settings/workflow-limits.ts"

export const KEY_SCOPES = ["read", "trigger", "author", "worker", "admin"] as const
export type KeyScope = (typeof KEY_SCOPES)[number]

export interface KeyRow {
  id: string
  name: string
  scopes: KeyScope[]
  /** Queues that workers of this key may serve; null: all. */
  queues: string[] | null
  /** Workflows that the key may see and change; null: all. */
  limits: WorkflowLimits | null
  createdAt: string
  /** Name of the key or user that created it; null: unknown. */
  createdBy: string | null
  lastUsedAt: string | null
  expiresAt: string | null
}

export interface NewKey extends Pick<KeyRow, "id" | "name" | "scopes" | "queues" | "limits" | "createdBy"> {
  hash: string
  /** null: does not expire. */
  expiresInMs: number | null
}

export interface NewSession {
  /** Hash of the cookie. */
  hash: string
  /** Owner of the session, in the notation of the caller. */
  subject: string
  expiresInMs: number
}

/** An entry of the audit log. `keyId` is null for the server's own key, a user, or Ork itself; `result` is `ok` or the code of an error. */
export type AuditRow = ChainedEntry
export type NewAuditEntry = Omit<AuditFields, "at">

export interface KeyStore {
  createKey(input: NewKey): Promise<KeyRow>
  /** Returns the key whose secret has this hash, unless it has expired. A replaced secret counts until its overlap ends. */
  findKey(hash: string): Promise<KeyRow | null>
  /** Lists the keys, expired ones included. */
  listKeys(): Promise<KeyRow[]>
  /**
   * Replaces the hash of a key. The old hash is accepted for `overlapMs`; then the workers that it registered are evicted. Returns null
   * when there is no such key.
   */
  rotateKey(input: { id: string; hash: string; overlapMs: number }): Promise<KeyRow | null>
  /** Removes a key and evicts the workers that it registered. */
  removeKey(id: string): Promise<boolean>
  touchKeys(ids: string[]): Promise<void>
  /** Creates a session, and deletes those that have expired. */
  createSession(session: NewSession): Promise<void>
  /** Returns the subject of a session; null when there is none, or when it has expired. */
  findSession(hash: string): Promise<string | null>
  removeSession(hash: string): Promise<void>
  appendAudit(entries: readonly NewAuditEntry[]): Promise<void>
  /** Deletes the oldest entries of the audit log, and records that. Returns their number, at most `limit`. */
  trimAudit(query: { olderThanMs: number; limit: number }): Promise<number>
  /** Lists entries, newest first; with `after`, oldest first. */
  listAudit(query: { before?: number; after?: number; limit: number }): Promise<AuditRow[]>
  /** Lists the changes of a workflow, a run with its tasks, or a job, newest first. */
  listChanges(query: { kind: "workflow" | "run" | "job"; of: string; before?: number; limit: number }): Promise<AuditRow[]>
}
