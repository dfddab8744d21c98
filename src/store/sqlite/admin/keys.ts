// API keys and sessions, found by the hash of their secret, and the audit log.

import type { AuditRow, KeyRow, KeyStore, NewAuditEntry, NewKey, NewSession } from "../../contract/keys.ts"
import { auditHash } from "../../../core/rules/access/audit-chain.ts"
import { changePattern, trimEntry } from "../../shared/audit.ts"
import { type KeyColumns, keyOf, keyTexts } from "../../shared/key-rows.ts"
import { iso } from "../../../core/model/ports.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const keyStore = ({ read, write }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, input)),
  findKey: (hash) => read((s) => findKey(s, BY_HASH, hash)),
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
  listChanges: ({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }) =>
    read((s) => s.db.list<AuditRow>(CHANGES, of, changePattern(kind), before, limit)),
})

const CREATE =
  "INSERT INTO api_keys (id, name, scopes, queues, workflows, tags, hash, created_at, created_by, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

const createKey = (tx: Tx, key: NewKey): KeyRow => {
  const expiresAt = key.expiresInMs === null ? null : tx.iso(tx.now + key.expiresInMs)
  const { scopes, queues, workflows, tags } = keyTexts(key)
  tx.db.run(CREATE, key.id, key.name, scopes, queues, workflows, tags, key.hash, tx.at, key.createdBy, expiresAt)
  const { id, name, createdBy } = key
  return keyOf({ id, name, scopes, queues, workflows, tags, createdAt: tx.at, createdBy, lastUsedAt: null, expiresAt })
}

const COLUMNS = `
SELECT id, name, scopes, queues, workflows, tags, created_at AS "createdAt", created_by AS "createdBy", last_used_at AS "lastUsedAt",
  expires_at AS "expiresAt"
FROM api_keys`
const VALID = "(expires_at IS NULL OR expires_at > ?2)"
const BY_HASH = `${COLUMNS} WHERE (hash = ?1 OR previous_hash = ?1 AND previous_until > ?2) AND ${VALID}`
const BY_ID = `${COLUMNS} WHERE id = ?1 AND ${VALID}`
const LIST = `${COLUMNS} ORDER BY created_at, id`

const findKey = (context: StoreContext, sql: string, key: string): KeyRow | null => {
  const found = context.db.find<KeyColumns>(sql, key, iso(context.clock.now()))
  return found === undefined ? null : keyOf(found)
}

const ROTATE = `
UPDATE api_keys SET previous_hash = hash, previous_until = ?, hash = ? WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)`

const rotateKey = (tx: Tx, { id, hash, overlapMs }: { id: string; hash: string; overlapMs: number }): KeyRow | null => {
  tx.db.run(ROTATE, tx.iso(tx.now + overlapMs), hash, id, tx.at)
  return findKey(tx, BY_ID, id)
}

const listKeys = (context: StoreContext): KeyRow[] => context.db.list<KeyColumns>(LIST).map(keyOf)

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
  "INSERT INTO audit (at, key_id, actor, subject, address, action, target, result, details, request, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

const OF_REQUEST = "SELECT 1 FROM audit WHERE request = ?"

/** Leaves out entries of requests that have one: a caller repeats a transaction whose reply was lost. */
export const appendAudit = (tx: Tx, entries: readonly NewAuditEntry[]): void => {
  let last = tx.db.get<[string | null]>(LAST)?.[0] ?? null
  for (const entry of entries) {
    const { keyId, actor, subject, address, action, target, result, details, request } = entry
    if (request !== null && tx.db.get(OF_REQUEST, request) !== undefined) continue
    last = auditHash(last, { ...entry, at: tx.at })
    tx.db.run(APPEND, tx.at, keyId, actor, subject, address, action, target, result, details, request, last)
  }
}

const TRIM_AUDIT = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? ORDER BY seq LIMIT ? + 0)"

const trimAudit = (tx: Tx, { olderThanMs, limit }: { olderThanMs: number; limit: number }): number => {
  const count = tx.db.run(TRIM_AUDIT, tx.iso(tx.now - olderThanMs), limit)
  if (count > 0) appendAudit(tx, [trimEntry(count)])
  return count
}

const FIELDS = `SELECT seq, at, key_id AS "keyId", actor, subject, address, action, target, result, details, request, hash FROM audit`
const AUDIT = `${FIELDS} WHERE seq < ? ORDER BY seq DESC LIMIT ? + 0`
const AUDIT_AFTER = `${FIELDS} WHERE seq > ? ORDER BY seq LIMIT ? + 0`

const CHANGES = `${FIELDS}
WHERE (target = ?1 OR (target >= ?1 || '/' AND target < ?1 || '0')) AND action LIKE ?2 AND result = 'ok' AND seq < ?3
ORDER BY seq DESC LIMIT ?4 + 0`

const listAudit = ({ db }: StoreContext, { before, after, limit }: Parameters<KeyStore["listAudit"]>[0]): AuditRow[] =>
  after === undefined
    ? db.list<AuditRow>(AUDIT, before ?? Number.MAX_SAFE_INTEGER, limit)
    : db.list<AuditRow>(AUDIT_AFTER, after, limit)
