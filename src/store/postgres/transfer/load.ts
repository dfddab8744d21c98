// Fills a database without a schema of Ork with the tables of a dump, in one transaction with the creation of the schema: whatever fails
// leaves nothing behind.

import type { Cell, Dump, TableChunk, TableDigests } from "../../contract/transfer.ts"
import { compareDigests, notBlank, TableDigester } from "../../shared/table-digests.ts"
import { FORMER_HOLDER, HOLDER_COLUMNS, SEQUENCES, TABLES } from "../../shared/tables.ts"
import { ENTRY, INNER_RUN, insertInto, READINESS } from "../claim/ready-queue.ts"
import { replaceNul } from "../connection/array-params.ts"
import { type Connection, hostOf, type Target } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { type Statement, statement } from "../connection/statement.ts"
import { applyMigrations, MIGRATIONS, transaction } from "../schema/migrations.ts"
import { type Column, OWN_SCHEMA, readColumns, readTables } from "./dump.ts"

const HAS_TABLES = statement(
  "transfer_has_tables",
  `SELECT 1 AS found FROM pg_tables WHERE schemaname = :schema AND tablename = 'schema_version'`,
)

export const isBlank = async (connection: Connection, { schema }: Target): Promise<boolean> =>
  (await connection.run(HAS_TABLES, { schema })).length === 0

export const load = (connections: ConnectionPool, target: Target, dump: Dump): Promise<TableDigests> =>
  transaction(connections, target, async (connection) => {
    if (!(await isBlank(connection, target))) {
      throw notBlank(hostOf(target.url), `drop them (DROP SCHEMA ${target.schema} CASCADE), or give another database`)
    }
    await applyMigrations(connection, target, MIGRATIONS.slice(0, dump.schemaVersion))
    const digests = await fill(connection, hostOf(target.url), dump)
    await applyMigrations(connection, target, MIGRATIONS)
    await connection.run(MARK_COMPLETED)
    await connection.script(`ANALYZE ${Object.keys(TABLES).join(", ")}`)
    return digests
  })

const fill = async (connection: Connection, where: string, dump: Dump): Promise<TableDigests> => {
  const columnsOf = await readColumns(connection)
  const [holder] = await connection.run<{ id: string }>(INSERT_HOLDER, FORMER_HOLDER)
  const source = new TableDigester()
  for await (const chunk of dump.chunks) {
    const storable = withoutNul(chunk)
    source.add(storable)
    if (chunk.table === SEQUENCES) await setSequences(connection, chunk)
    else await insert(connection, storable, columnsOf.get(chunk.table) ?? [], holder!.id)
  }
  for (const derive of DERIVED) await connection.run(derive)
  const copy = new TableDigester()
  for await (const chunk of readTables(connection)) copy.add(chunk)
  compareDigests(where, source.digests(), copy.digests())
  return copy.digests()
}

const INSERT_HOLDER = statement(
  "transfer_insert_holder",
  `INSERT INTO holders (id, kind, name, process, lease_ms, lease_until, dead)
   VALUES (gen_random_uuid(), :kind, :name, :process, 0, now(), true) RETURNING id`,
)

const withoutNul = ({ table, columns, rows }: TableChunk): TableChunk => ({
  table,
  columns,
  rows: rows.map((row) => row.map((cell) => (typeof cell === "string" && cell.includes("\0") ? replaceNul(cell) : cell))),
})

const insert = async (
  connection: Connection,
  { table, columns, rows }: TableChunk,
  types: readonly Column[],
  holder: string,
): Promise<void> => {
  if (rows.length === 0) return
  const names = columns.map((name) => `"${name}"`).join(", ")
  const fill: Statement = {
    name: `fill_${table}`,
    text: `INSERT INTO ${table} (${names}) OVERRIDING SYSTEM VALUE SELECT ${names} FROM json_populate_recordset(NULL::${table}, $1::json)`,
    params: [{ name: "rows", type: "json" }],
  }
  const isList = columns.map((name) => types.find((column) => column.name === name)?.type.endsWith("[]") === true)
  const isHolder = columns.map((name) => HOLDER_COLUMNS.includes(`${table}.${name}`))
  const toJson = (cell: Cell, i: number): unknown => {
    if (cell === null) return null
    if (isHolder[i]) return holder
    return isList[i] ? (JSON.parse(String(cell)) as unknown) : cell
  }
  const records = rows.map((row) => Object.fromEntries(row.map((cell, i) => [columns[i]!, toJson(cell, i)])))
  await connection.run(fill, [JSON.stringify(records)])
}

/** What a trigger notes when jobs complete. Dumps of older schemas have jobs, but not the table. */
const MARK_COMPLETED = statement(
  "transfer_completed_seconds",
  `INSERT INTO completed_seconds (list, priority, second)
   SELECT DISTINCT l.list, j.priority, date_trunc('second', j.created_at)
   FROM jobs j CROSS JOIN LATERAL (VALUES ('n:' || j.name), ('q:' || j.queue)) l (list) WHERE j.status = 'COMPLETED'
   ON CONFLICT DO NOTHING`,
)

/** The lists beside `tasks`, and the column that the cancellation of large runs reads. */
const DERIVED = [
  statement(
    "transfer_inner_runs",
    `UPDATE tasks t SET inner_run = ${INNER_RUN("t")} WHERE t.status = 'pending' AND t.parent_id IS NOT NULL`,
  ),
  statement("transfer_ready", `WITH ready AS (SELECT ${READINESS("t")} FROM tasks t) ${insertInto("ready_queue", "ready")}`),
  statement(
    "transfer_in_flight",
    `WITH claimed AS (SELECT ${ENTRY("t")} FROM tasks t WHERE t.holder IS NOT NULL) ${insertInto("in_flight", "claimed")}`,
  ),
]

/** Sets the sequences: each goes on after the last number of the source, and after every number of its table. */
const setSequences = async (connection: Connection, { rows }: TableChunk): Promise<void> => {
  const last = new Map(rows.map(([table, number]) => [String(table), Number(number)]))
  for (const { table, name } of await connection.run<{ table: string; name: string }>(IDENTITIES)) {
    const set: Statement = {
      name: `sequence_${table}`,
      text: `SELECT setval(pg_get_serial_sequence('${table}', '${name}'), greatest($1::bigint, max("${name}"), 1)) FROM ${table}
             HAVING greatest($1::bigint, max("${name}")) IS NOT NULL`,
      params: [{ name: "last", type: "bigint" }],
    }
    await connection.run(set, [last.get(table) ?? null])
  }
}

const IDENTITIES = statement(
  "transfer_identities",
  `SELECT c.relname AS table, a.attname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attidentity <> ''
   WHERE c.relnamespace = ${OWN_SCHEMA}`,
)
