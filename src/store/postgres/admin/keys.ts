// API keys, found by the hash of their secret, and the audit log.

import type { AuditRow, KeyRow, KeyStore, KeyScope } from "../../contract/keys.ts"
import type { Access } from "../tx.ts"
import { replaceNul } from "../connection/array-params.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

export const keyStore = ({ read, write }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, input)),
  findKey: (hash) => read((connection) => findKey(connection, hash)),
  listKeys: () => read(listKeys),
  removeKey: (id) => write(async (tx) => (await tx.run(REMOVE, { id })).length === 1),
  touchKeys: (ids) => write(async (tx) => void (await tx.run(TOUCH, { ids }))),
  appendAudit: (entries) => write((tx) => appendAudit(tx, entries)),
  trimAudit: (query) => write(async (tx) => (await tx.run(TRIM_AUDIT, query)).length),
  listAudit: (query) => read((connection) => listAudit(connection, query)),
})

const COLUMNS = `id, name, scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt"`

const CREATE = statement(
  "keys_create",
  `INSERT INTO api_keys (id, name, scopes, hash, created_at) VALUES (:id, :name, :scopes, :hash, ${NOW})
   RETURNING ${COLUMNS}`,
)

type Columns = Omit<KeyRow, "scopes"> & { scopes: string }

const keyOf = (columns: Columns): KeyRow => ({ ...columns, scopes: JSON.parse(columns.scopes) as KeyScope[] })

const createKey = async (tx: SqlRunner, { id, name, scopes, hash }: Parameters<KeyStore["createKey"]>[0]): Promise<KeyRow> => {
  const [created] = await tx.run<Columns>(CREATE, { id, name: replaceNul(name), scopes: JSON.stringify(scopes), hash })
  return keyOf(created!)
}

const BY_HASH = statement("keys_by_hash", `SELECT ${COLUMNS} FROM api_keys WHERE hash = :hash`)

const findKey = async (connection: SqlRunner, hash: string): Promise<KeyRow | null> => {
  const [found] = await connection.run<Columns>(BY_HASH, { hash })
  return found === undefined ? null : keyOf(found)
}

const LIST = statement("keys_list", `SELECT ${COLUMNS} FROM api_keys ORDER BY created_at, id`)

const listKeys = async (connection: SqlRunner): Promise<KeyRow[]> => (await connection.run<Columns>(LIST)).map(keyOf)

const REMOVE = statement("keys_remove", "DELETE FROM api_keys WHERE id = :id RETURNING id")

const TOUCH = statement("keys_touch", `UPDATE api_keys SET last_used_at = ${NOW} WHERE id = ANY (:ids::text[])`)

const APPEND = statement(
  "audit_append",
  `INSERT INTO audit (at, key_id, action, target, details) SELECT ${NOW}, key_id, action, target, details
   FROM unnest(:positions::int[], :keyIds::text[], :actions::text[], :targets::text[], :details::text[]) AS c (position, key_id, action, target, details)
   ORDER BY position`,
)

const appendAudit = async (tx: SqlRunner, entries: readonly Omit<AuditRow, "seq" | "at">[]): Promise<void> => {
  if (entries.length === 0) return
  await tx.run(APPEND, {
    positions: entries.map((_, position) => position),
    keyIds: entries.map(({ keyId }) => keyId),
    actions: entries.map(({ action }) => action),
    targets: entries.map(({ target }) => target),
    details: entries.map(({ details }) => details),
  })
}

const TRIM_AUDIT = statement(
  "audit_trim",
  `DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ${NOW} - :olderThanMs * interval '1 millisecond' ORDER BY seq LIMIT :limit::int)
   RETURNING seq`,
)

const AUDIT = statement(
  "audit_list",
  `SELECT seq, at, key_id AS "keyId", action, target, details FROM audit WHERE seq < :before::bigint ORDER BY seq DESC LIMIT :limit::int`,
)

const listAudit = (connection: SqlRunner, { before, limit }: { before?: number; limit: number }): Promise<AuditRow[]> =>
  connection.run<AuditRow>(AUDIT, { before: before ?? Number.MAX_SAFE_INTEGER, limit })
