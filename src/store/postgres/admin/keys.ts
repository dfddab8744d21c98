// API keys, known by the hash of their secret, and the audit log.

import type { AuditRow, KeyRow, KeyStore, KeyScope } from "../../contract/keys.ts"
import type { Access } from "../tx.ts"
import { anyTextParam, replaceNul, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { NOW } from "../connection/store-clock.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

export const keyStore = ({ read, write, clock }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, clock.now(), input)),
  findKey: (hash) => read((session) => findKey(session, hash)),
  listKeys: () => read(listKeys),
  removeKey: (id) => write(async (tx) => (await tx.run(REMOVE, { id })).length === 1),
  touchKeys: (ids) => write(async (tx) => void (await tx.run(TOUCH, { now: clock.now(), ids: anyTextParam(ids) }))),
  appendAudit: (entries) => write((tx) => appendAudit(tx, clock.now(), entries)),
  trimAudit: (query) => write(async (tx) => (await tx.run(TRIM_AUDIT, query)).length),
  listAudit: (query) => read((session) => listAudit(session, query)),
})

const COLUMNS = `id, name, scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt"`

const CREATE = statement(
  "keys_create",
  `INSERT INTO api_keys (id, name, scopes, hash, created_at) VALUES (:id, :name, :scopes, :hash, COALESCE(:now::timestamptz, now()))
   RETURNING ${COLUMNS}`,
)

type Columns = Omit<KeyRow, "scopes"> & { scopes: string }

const keyOf = (columns: Columns): KeyRow => ({ ...columns, scopes: JSON.parse(columns.scopes) as KeyScope[] })

const createKey = async (
  tx: SqlRunner,
  now: string | null,
  { id, name, scopes, hash }: Parameters<KeyStore["createKey"]>[0],
): Promise<KeyRow> => {
  const [made] = await tx.run<Columns>(CREATE, { now, id, name: replaceNul(name), scopes: JSON.stringify(scopes), hash })
  return keyOf(made!)
}

const BY_HASH = statement("keys_by_hash", `SELECT ${COLUMNS} FROM api_keys WHERE hash = :hash`)

const findKey = async (session: SqlRunner, hash: string): Promise<KeyRow | null> => {
  const [found] = await session.run<Columns>(BY_HASH, { hash })
  return found === undefined ? null : keyOf(found)
}

const LIST = statement("keys_list", `SELECT ${COLUMNS} FROM api_keys ORDER BY created_at, id`)

const listKeys = async (session: SqlRunner): Promise<KeyRow[]> => (await session.run<Columns>(LIST)).map(keyOf)

const REMOVE = statement("keys_remove", "DELETE FROM api_keys WHERE id = :id RETURNING id")

const TOUCH = statement(
  "keys_touch",
  "UPDATE api_keys SET last_used_at = COALESCE(:now::timestamptz, now()) WHERE id = ANY (:ids::text[])",
)

const APPEND = statement(
  "audit_append",
  `INSERT INTO audit (at, key_id, action, target, details) SELECT COALESCE(:now::timestamptz, now()), key_id, action, target, details
   FROM unnest(:positions::int[], :keyIds::text[], :actions::text[], :targets::text[], :details::text[]) AS c (n, key_id, action, target, details) ORDER BY n`,
)

const appendAudit = async (
  tx: SqlRunner,
  now: string | null,
  entries: readonly Omit<AuditRow, "seq" | "at">[],
): Promise<void> => {
  if (entries.length === 0) return
  await tx.run(APPEND, {
    now,
    positions: arrayParam(entries.map((_, n) => n)),
    keyIds: textArrayParam(entries.map(({ keyId }) => keyId)),
    actions: textArrayParam(entries.map(({ action }) => action)),
    targets: textArrayParam(entries.map(({ target }) => target)),
    details: textArrayParam(entries.map(({ details }) => details)),
  })
}

const TRIM_AUDIT = statement(
  "audit_trim",
  `DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ${NOW} - :olderThanMs * interval '1 ms' ORDER BY seq LIMIT :limit::int)
   RETURNING seq`,
)

const AUDIT = statement(
  "audit_list",
  `SELECT seq, at, key_id AS "keyId", action, target, details FROM audit WHERE seq < :before::bigint ORDER BY seq DESC LIMIT :limit::int`,
)

const listAudit = (session: SqlRunner, { before, limit }: { before?: number; limit: number }): Promise<AuditRow[]> =>
  session.run<AuditRow>(AUDIT, { before: before ?? Number.MAX_SAFE_INTEGER, limit })
