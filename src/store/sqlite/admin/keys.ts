// API keys, found by the hash of their secret, and the audit log.

import type { AuditRow, KeyRow, KeyStore, KeyScope } from "../../contract/keys.ts"
import { iso } from "../../../core/model/ports.ts"
import type { Access, Session, Tx } from "../tx.ts"

export const keyStore = ({ read, write }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, input)),
  findKey: (hash) => read((s) => findKey(s, hash)),
  listKeys: () => read(listKeys),
  removeKey: (id) => write((tx) => tx.db.run(REMOVE, id) === 1),
  touchKeys: (ids) => write((tx) => touchKeys(tx, ids)),
  appendAudit: (entries) => write((tx) => appendAudit(tx, entries)),
  trimAudit: ({ olderThanMs, limit }) => write((tx) => tx.db.run(TRIM_AUDIT, iso(tx.now - olderThanMs), limit)),
  listAudit: (query) => read((s) => listAudit(s, query)),
})

const CREATE = "INSERT INTO api_keys (id, name, scopes, hash, created_at) VALUES (?, ?, ?, ?, ?)"

const createKey = (
  tx: Tx,
  { id, name, scopes, hash }: { id: string; name: string; scopes: KeyScope[]; hash: string },
): KeyRow => {
  tx.db.run(CREATE, id, name, JSON.stringify(scopes), hash, tx.at)
  return { id, name, scopes, createdAt: tx.at, lastUsedAt: null }
}

const COLUMNS = "SELECT id, name, scopes, created_at, last_used_at FROM api_keys"
const BY_HASH = `${COLUMNS} WHERE hash = ?`
const LIST = `${COLUMNS} ORDER BY created_at, id`

type Columns = [string, string, string, string, string | null]

const keyOf = ([id, name, scopes, createdAt, lastUsedAt]: Columns): KeyRow => ({
  id,
  name,
  scopes: JSON.parse(scopes) as KeyScope[],
  createdAt,
  lastUsedAt,
})

const findKey = (session: Session, hash: string): KeyRow | null => {
  const found = session.db.get<Columns>(BY_HASH, hash)
  return found === undefined ? null : keyOf(found)
}

const listKeys = (session: Session): KeyRow[] => session.db.all<Columns>(LIST).map(keyOf)

const REMOVE = "DELETE FROM api_keys WHERE id = ?"

const TOUCH = "UPDATE api_keys SET last_used_at = ? WHERE id = ?"

const touchKeys = (tx: Tx, ids: readonly string[]): void => {
  for (const id of ids) tx.db.run(TOUCH, tx.at, id)
}

const APPEND = "INSERT INTO audit (at, key_id, action, target, details) VALUES (?, ?, ?, ?, ?)"

const appendAudit = (tx: Tx, entries: readonly Omit<AuditRow, "seq" | "at">[]): void => {
  for (const { keyId, action, target, details } of entries) tx.db.run(APPEND, tx.at, keyId, action, target, details)
}

const TRIM_AUDIT = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? ORDER BY seq LIMIT ? + 0)"

const AUDIT = "SELECT seq, at, key_id, action, target, details FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ? + 0"

const listAudit = (session: Session, { before, limit }: { before?: number; limit: number }): AuditRow[] =>
  session.db
    .all<[number, string, string | null, string, string, string | null]>(AUDIT, before ?? Number.MAX_SAFE_INTEGER, limit)
    .map(([seq, at, keyId, action, target, details]) => ({ seq, at, keyId, action, target, details }))
