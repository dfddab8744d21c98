// API keys and sessions, found by the hash of their secret, and the audit log.

import { auditHash } from "../../../core/rules/access/audit-chain.ts"
import type { AuditRow, KeyRow, KeyStore, NewAuditEntry, NewKey, NewSession } from "../../contract/keys.ts"
import { changePattern, trimEntry } from "../../shared/audit.ts"
import { type KeyColumns, keyOf, keyTexts } from "../../shared/key-rows.ts"
import type { Access } from "../tx.ts"
import { replaceNul } from "../connection/array-params.ts"
import { pipelined, type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

export const keyStore = ({ read, write, writeAndNotify }: Access): KeyStore => ({
  createKey: (input) => write((tx) => createKey(tx, input)),
  findKey: (hash) => read(async (connection) => keyOrNull(await connection.run<KeyColumns>(BY_HASH, { hash }))),
  listKeys: () => read(listKeys),
  rotateKey: (input) => write(async (tx) => keyOrNull(await tx.run<KeyColumns>(ROTATE, input))),
  removeKey: (id) => writeAndNotify((tx) => removeKey(tx, id)),
  touchKeys: (ids) => write(async (tx) => void (await tx.run(TOUCH, { ids }))),
  createSession: (session) => write((tx) => createSession(tx, session)),
  findSession: (hash) =>
    read(async (connection) => (await connection.run<{ subject: string }>(SESSION, { hash }))[0]?.subject ?? null),
  removeSession: (hash) => write(async (tx) => void (await tx.run(REMOVE_SESSION, { hash }))),
  appendAudit: (entries) => write((tx) => appendAudit(tx, entries)),
  trimAudit: (query) => write((tx) => trimAudit(tx, query)),
  listChanges: ({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }) =>
    read((connection) => connection.run<AuditRow>(CHANGES, { of, pattern: changePattern(kind), before, limit })),
  listAudit: (query) => read((connection) => listAudit(connection, query)),
})

const COLUMNS = `id, name, scopes, queues, workflows, tags, created_at AS "createdAt", created_by AS "createdBy", last_used_at AS "lastUsedAt",
  expires_at AS "expiresAt"`

/** Returns the instant `:ms` milliseconds from now; null for null. */
const inMs = (ms: string): string => `${NOW} + :${ms}::bigint * interval '1 millisecond'`

const CREATE = statement(
  "keys_create",
  `INSERT INTO api_keys (id, name, scopes, queues, workflows, tags, hash, created_at, created_by, expires_at)
   VALUES (:id, :name, :scopes, :queues, :workflows, :tags, :hash, ${NOW}, :createdBy, ${inMs("expiresInMs")})
   RETURNING ${COLUMNS}`,
)

const keyOrNull = ([found]: readonly KeyColumns[]): KeyRow | null => (found === undefined ? null : keyOf(found))

const createKey = async (tx: SqlRunner, key: NewKey): Promise<KeyRow> => {
  const { id, hash, createdBy, expiresInMs } = key
  const columns = { id, hash, createdBy, expiresInMs, name: replaceNul(key.name), ...keyTexts(key) }
  const [created] = await tx.run<KeyColumns>(CREATE, columns)
  return keyOf(created!)
}

const VALID = `(expires_at IS NULL OR expires_at > ${NOW})`

const BY_HASH = statement(
  "keys_by_hash",
  `SELECT ${COLUMNS} FROM api_keys WHERE (hash = :hash OR previous_hash = :hash AND previous_until > ${NOW}) AND ${VALID}`,
)

const ROTATE = statement(
  "keys_rotate",
  `UPDATE api_keys SET previous_hash = hash, previous_until = ${inMs("overlapMs")}, hash = :hash WHERE id = :id AND ${VALID}
   RETURNING ${COLUMNS}`,
)

const LIST = statement("keys_list", `SELECT ${COLUMNS} FROM api_keys ORDER BY created_at, id`)

const listKeys = async (connection: SqlRunner): Promise<KeyRow[]> => (await connection.run<KeyColumns>(LIST)).map(keyOf)

const REMOVE = statement("keys_remove", "DELETE FROM api_keys WHERE id = :id RETURNING id")

const EVICT_WORKERS = statement("keys_evict_workers", "UPDATE holders SET dead = true WHERE key_id = :id")

const removeKey = async (tx: SqlRunner, id: string): Promise<boolean> => {
  await tx.run(EVICT_WORKERS, { id })
  return (await tx.run(REMOVE, { id })).length === 1
}

const REMOVE_EXPIRED_SESSIONS = statement("sessions_remove_expired", `DELETE FROM sessions WHERE expires_at <= ${NOW}`)

const CREATE_SESSION = statement(
  "sessions_create",
  `INSERT INTO sessions (hash, subject, created_at, expires_at) VALUES (:hash, :subject, ${NOW}, ${inMs("expiresInMs")})`,
)

const createSession = async (tx: SqlRunner, session: NewSession): Promise<void> => {
  await tx.run(REMOVE_EXPIRED_SESSIONS)
  await tx.run(CREATE_SESSION, { ...session })
}

const SESSION = statement("sessions_find", `SELECT subject FROM sessions WHERE hash = :hash AND expires_at > ${NOW}`)

const REMOVE_SESSION = statement("sessions_remove", "DELETE FROM sessions WHERE hash = :hash")

const TOUCH = statement("keys_touch", `UPDATE api_keys SET last_used_at = ${NOW} WHERE id = ANY (:ids::text[])`)

/**
 * Entries are appended one transaction after the other: the hash of each covers the one before it. The database ends a transaction of a
 * server that stalls while it holds the lock.
 */
const LOCK = statement(
  "audit_lock",
  `SELECT set_config('idle_in_transaction_session_timeout', '5s', true),
     pg_advisory_xact_lock(hashtextextended('ork audit ' || current_schema(), 0))`,
)

/** A statement of its own: it must see what was committed before the lock was granted. */
const LAST = statement(
  "audit_last",
  `SELECT ${NOW}::timestamptz(3) AS at, (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS hash,
     ARRAY(SELECT request FROM audit WHERE request = ANY (:requests::text[])) AS written`,
)

const APPEND = statement(
  "audit_append",
  `INSERT INTO audit (at, key_id, actor, subject, address, action, target, result, details, request, hash)
   SELECT :at::timestamptz, key_id, actor, subject, address, action, target, result, details, request, hash
   FROM unnest(:positions::int[], :keyIds::text[], :actors::text[], :subjects::text[], :addresses::text[], :actions::text[],
     :targets::text[], :results::text[], :details::text[], :requests::text[], :hashes::text[])
   AS c (position, key_id, actor, subject, address, action, target, result, details, request, hash) ORDER BY position`,
)

/** Leaves out entries of requests that have one: a caller repeats a transaction whose reply was lost. */
export const appendAudit = async (tx: SqlRunner, entries: readonly NewAuditEntry[]): Promise<void> => {
  if (entries.length === 0) return
  const locked = pipelined(tx.run(LOCK))
  const requests = entries.flatMap(({ request }) => request ?? [])
  const reading = pipelined(tx.run<{ at: string; hash: string | null; written: string[] }>(LAST, { requests }))
  await locked
  const { at, hash, written } = (await reading)[0]!
  let last = hash
  const clean = entries
    .filter(({ request }) => request === null || !written.includes(request))
    .map((entry) => ({
      ...entry,
      actor: entry.actor && replaceNul(entry.actor),
      subject: entry.subject && replaceNul(entry.subject),
      target: replaceNul(entry.target),
      details: entry.details && replaceNul(entry.details),
    }))
  if (clean.length === 0) return
  const hashes = clean.map((entry) => (last = auditHash(last, { ...entry, at })))
  await tx.run(APPEND, {
    at,
    positions: clean.map((_, position) => position),
    keyIds: clean.map(({ keyId }) => keyId),
    actors: clean.map(({ actor }) => actor),
    subjects: clean.map(({ subject }) => subject),
    addresses: clean.map(({ address }) => address),
    actions: clean.map(({ action }) => action),
    targets: clean.map(({ target }) => target),
    results: clean.map(({ result }) => result),
    details: clean.map(({ details }) => details),
    requests: clean.map(({ request }) => request),
    hashes,
  })
}

const TRIM_AUDIT = statement(
  "audit_trim",
  `DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ${NOW} - :olderThanMs * interval '1 millisecond' ORDER BY seq LIMIT :limit::int)
   RETURNING seq`,
)

const trimAudit = async (tx: SqlRunner, query: { olderThanMs: number; limit: number }): Promise<number> => {
  const count = (await tx.run(TRIM_AUDIT, query)).length
  if (count > 0) await appendAudit(tx, [trimEntry(count)])
  return count
}

const FIELDS = `SELECT seq, at, key_id AS "keyId", actor, subject, address, action, target, result, details, request, hash FROM audit`

const AUDIT = statement("audit_list", `${FIELDS} WHERE seq < :before::bigint ORDER BY seq DESC LIMIT :limit::int`)

const AUDIT_AFTER = statement("audit_list_after", `${FIELDS} WHERE seq > :after::bigint ORDER BY seq LIMIT :limit::int`)

const TARGET = 'target COLLATE "C"'

const CHANGES = statement(
  "audit_changes",
  `${FIELDS} WHERE (${TARGET} = :of OR (${TARGET} >= :of || '/' AND ${TARGET} < :of || '0')) AND action LIKE :pattern AND result = 'ok'
     AND seq < :before::bigint ORDER BY seq DESC LIMIT :limit::int`,
)

const listAudit = (
  connection: SqlRunner,
  { before = Number.MAX_SAFE_INTEGER, after, limit }: Parameters<KeyStore["listAudit"]>[0],
): Promise<AuditRow[]> =>
  after === undefined
    ? connection.run<AuditRow>(AUDIT, { before, limit })
    : connection.run<AuditRow>(AUDIT_AFTER, { after, limit })
