// API keys (stored as hashes) and the audit log.

export const KEY_SCOPES = ["read", "trigger", "worker", "admin"] as const
export type KeyScope = (typeof KEY_SCOPES)[number]

export interface KeyRow {
  id: string
  name: string
  scopes: KeyScope[]
  createdAt: string
  lastUsedAt: string | null
}

export interface AuditRow {
  seq: number
  at: string
  /** null: the key of the server, or Ork itself. */
  keyId: string | null
  action: string
  target: string
  details: string | null
}

export interface KeyStore {
  createKey(input: { id: string; name: string; scopes: KeyScope[]; hash: string }): Promise<KeyRow>
  findKey(hash: string): Promise<KeyRow | null>
  listKeys(): Promise<KeyRow[]>
  removeKey(id: string): Promise<boolean>
  touchKeys(ids: string[]): Promise<void>
  appendAudit(entries: Omit<AuditRow, "seq" | "at">[]): Promise<void>
  /** Deletes the oldest entries of the audit log. Returns their number, at most `limit`. */
  trimAudit(query: { olderThanMs: number; limit: number }): Promise<number>
  listAudit(query: { before?: number; limit: number }): Promise<AuditRow[]>
}
