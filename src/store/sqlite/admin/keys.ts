// API keys and sessions, found by the hash of their secret, and the audit log.

import type { AuditRow, KeyRow, KeyStore, KeyScope, NewAuditEntry, NewKey, NewSession } from "../../contract/keys.ts"
import { auditHash } from "../../../core/rules/audit-chain.ts"
import { trimEntry } from "../../shared/audit.ts"
import { iso } from "../../../core/model/ports.ts"
import type { Access, Session, Tx } from "../tx.ts"

export const keyStore = ({ read, write }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, input)),
  findKey: (by) => read((s) => findKey(s, by)),
  listKeys: () => read(listKeys),
  rotateKey: (input) => write((tx) => rotateKey(tx, input)),
  removeKey: (id) => write((tx) => removeKey(tx, id)),
  touchKeys: (ids) => write((tx) => touchKeys(tx, ids)),
  createSession: (session) => write((tx) => createSession(tx, session)),
  findSession: (hash) => read((s) => s.db.get<[string]>(SESSION, hash, iso(s.clock.now()))?.[0] ?? null),
  removeSession: (hash) => write((tx) => void tx.db.run(REMOVE_SESSION, hash)),
  appendAudit: (entries) => write((tx) => appendAudit(tx, entries)),
  trimAudit: (query) => write((tx) => trimAudit(tx, query)),
  listAudit: (query) => read((s) => listAudit(s, query)),
})

const CREATE =
  "INSERT INTO api_keys (id, name, scopes, queues, hash, created_at, created_by, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

const createKey = (tx: Tx, { id, name, scopes, queues, hash, createdBy, expiresInMs }: NewKey): KeyRow => {
  const expiresAt = expiresInMs === null ? null : tx.iso(tx.now + expiresInMs)
  const queuesText = queues === null ? null : JSON.stringify(queues)
  tx.db.run(CREATE, id, name, JSON.stringify(scopes), queuesText, hash, tx.at, createdBy, expiresAt)
  return { id, name, scopes, queues, createdAt: tx.at, createdBy, lastUsedAt: null, expiresAt }
}

const COLUMNS = `
SELECT id, name, scopes, queues, created_at AS "createdAt", created_by AS "createdBy", last_used_at AS "lastUsedAt",
  expires_at AS "expiresAt"
FROM api_keys`
const VALID = "(expires_at IS NULL OR expires_at > ?2)"
const BY_HASH = `${COLUMNS} WHERE (hash = ?1 OR previous_hash = ?1 AND previous_until > ?2) AND ${VALID}`
const BY_ID = `${COLUMNS} WHERE id = ?1 AND ${VALID}`
const LIST = `${COLUMNS} ORDER BY created_at, id`

type Columns = Omit<KeyRow, "scopes" | "queues"> & { scopes: string; queues: string | null }

const keyOf = (columns: Columns): KeyRow => ({
  ...columns,
  scopes: JSON.parse(columns.scopes) as KeyScope[],
  queues: columns.queues === null ? null : (JSON.parse(columns.queues) as string[]),
})

const findKey = (session: Session, by: { hash: string } | { id: string }): KeyRow | null => {
  const now = iso(session.clock.now())
  const found = "hash" in by ? session.db.find<Columns>(BY_HASH, by.hash, now) : session.db.find<Columns>(BY_ID, by.id, now)
  return found === undefined ? null : keyOf(found)
}

const ROTATE = `
UPDATE api_keys SET previous_hash = hash, previous_until = ?, hash = ? WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)`

const rotateKey = (tx: Tx, { id, hash, overlapMs }: { id: string; hash: string; overlapMs: number }): KeyRow | null => {
  tx.db.run(ROTATE, tx.iso(tx.now + overlapMs), hash, id, tx.at)
  return findKey(tx, { id })
}

const listKeys = (session: Session): KeyRow[] => session.db.list<Columns>(LIST).map(keyOf)

const REMOVE = "DELETE FROM api_keys WHERE id = ?"

const EVICT_WORKERS = "UPDATE holders SET dead = 1 WHERE key_id = ?"

const removeKey = (tx: Tx, id: string): boolean => {
  tx.db.run(EVICT_WORKERS, id)
  return tx.db.run(REMOVE, id) === 1
}

const REMOVE_EXPIRED_SESSIONS = "DELETE FROM sessions WHERE expires_at <= ?"

const CREATE_SESSION = "INSERT INTO sessions (hash, subject, created_at, expires_at) VALUES (?, ?, ?, ?)"

const createSession = (tx: Tx, { hash, subject, expiresInMs }: NewSession): void => {
  tx.db.run(REMOVE_EXPIRED_SESSIONS, tx.at)
  tx.db.run(CREATE_SESSION, hash, subject, tx.at, tx.iso(tx.now + expiresInMs))
}

const SESSION = "SELECT subject FROM sessions WHERE hash = ? AND expires_at > ?"

const REMOVE_SESSION = "DELETE FROM sessions WHERE hash = ?"

const TOUCH = "UPDATE api_keys SET last_used_at = ? WHERE id = ?"

const touchKeys = (tx: Tx, ids: readonly string[]): void => {
  for (const id of ids) tx.db.run(TOUCH, tx.at, id)
}

const LAST = "SELECT hash FROM audit ORDER BY seq DESC LIMIT 1"

const APPEND =
  "INSERT INTO audit (at, key_id, actor, address, action, target, result, details, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

export const appendAudit = (tx: Tx, entries: readonly NewAuditEntry[]): void => {
  let last = tx.db.get<[string | null]>(LAST)?.[0] ?? null
  for (const entry of entries) {
    const { keyId, actor, address, action, target, result, details } = entry
    last = auditHash(last, { ...entry, at: tx.at })
    tx.db.run(APPEND, tx.at, keyId, actor, address, action, target, result, details, last)
  }
}

const TRIM_AUDIT = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? ORDER BY seq LIMIT ? + 0)"

const trimAudit = (tx: Tx, { olderThanMs, limit }: { olderThanMs: number; limit: number }): number => {
  const count = tx.db.run(TRIM_AUDIT, tx.iso(tx.now - olderThanMs), limit)
  if (count > 0) appendAudit(tx, [trimEntry(count)])
  return count
}

const FIELDS = `SELECT seq, at, key_id AS "keyId", actor, address, action, target, result, details, hash FROM audit`
const AUDIT = `${FIELDS} WHERE seq < ? ORDER BY seq DESC LIMIT ? + 0`
const AUDIT_AFTER = `${FIELDS} WHERE seq > ? ORDER BY seq LIMIT ? + 0`

const listAudit = ({ db }: Session, { before, after, limit }: Parameters<KeyStore["listAudit"]>[0]): AuditRow[] =>
  after === undefined
    ? db.list<AuditRow>(AUDIT, before ?? Number.MAX_SAFE_INTEGER, limit)
    : db.list<AuditRow>(AUDIT_AFTER, after, limit)
