// Reads the whole schema in one REPEATABLE READ transaction, through a cursor for each table. It blocks nobody and needs no pg_dump.

import { SchemaTooNew } from "../../contract/errors.ts"
import type { Cell, Dump, TableChunk } from "../../contract/transfer.ts"
import { HOLDER_COLUMNS, NOT_COPIED_COLUMNS, ROWS_PER_CHUNK, SEQUENCE_COLUMNS, SEQUENCES, TABLES } from "../../shared/tables.ts"
import { type Connection, hostOf, quoted, type Target } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { type Statement, statement } from "../connection/statement.ts"
import { MIGRATIONS, schemaVersion } from "../schema/migrations.ts"

const BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

export const dump = async <T>(
  connections: ConnectionPool,
  { url, schema }: Target,
  use: (dump: Dump) => Promise<T>,
): Promise<T> => {
  const columns = await connections.read(readColumns)
  const tables = [...columns.keys()].filter((table) => table in TABLES)
  return await connections.use(async (connection) => {
    const locked = ["schema_version", ...tables].map((table) => `${quoted(schema)}.${table}`)
    // The locks come before the first read, so that no migration changes a table that is still to be read.
    await connection.beginScript(`${BEGIN}; LOCK TABLE ${locked.join(", ")} IN ACCESS SHARE MODE`)
    try {
      const found = await schemaVersion(connection)
      if (found > MIGRATIONS.length) throw new SchemaTooNew(hostOf(url), found, MIGRATIONS.length)
      return await use({ schemaVersion: found, chunks: readTables(connection) })
    } finally {
      if (!connection.broken) await connection.script("ROLLBACK")
    }
  })
}

/** Id of the store's schema. */
export const OWN_SCHEMA = "(SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())"

/** Type of a column, as far as a copy distinguishes them. */
export interface Column {
  table: string
  name: string
  type: string
}

const COLUMNS = statement(
  "transfer_columns",
  `SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, NULL) AS type
   FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
   WHERE c.relnamespace = ${OWN_SCHEMA} AND c.relkind = 'r' ORDER BY a.attname COLLATE "C"`,
)

const isCopied = ({ table, name }: Column): boolean => !NOT_COPIED_COLUMNS.includes(`${table}.${name}`)

/** Returns the copied columns of every table, in alphabetical order. */
export const readColumns = async (connection: Connection): Promise<Map<string, Column[]>> =>
  Map.groupBy((await connection.run<Column>(COLUMNS)).filter(isCopied), ({ table }) => table)

const LAST_NUMBERS = statement(
  "transfer_last_numbers",
  `SELECT c.relname AS table, pg_sequence_last_value(pg_get_serial_sequence(quote_ident(c.relname), a.attname)::regclass) AS last
   FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attidentity <> ''
   WHERE c.relnamespace = ${OWN_SCHEMA} AND c.relname = ANY (:tables::text[]) ORDER BY 1`,
)

/** Yields all tables. The caller has begun a transaction. */
export async function* readTables(connection: Connection): AsyncGenerator<TableChunk> {
  const columnsOf = await readColumns(connection)
  for (const [table, key] of Object.entries(TABLES)) {
    const columns = columnsOf.get(table)
    if (columns !== undefined) yield* readTable(connection, columns, key)
  }
  const last = await connection.run<{ table: string; last: number | null }>(LAST_NUMBERS, { tables: Object.keys(TABLES) })
  const used = last.filter((sequence) => sequence.last !== null)
  yield { table: SEQUENCES, columns: SEQUENCE_COLUMNS, rows: used.map((sequence) => [sequence.table, sequence.last]) }
}

async function* readTable(
  connection: Connection,
  columns: readonly Column[],
  key: readonly string[],
): AsyncGenerator<TableChunk> {
  const { table } = columns[0]!
  const names = columns.map(({ name }) => name)
  const values = columns.map(({ name }) => `"${name}"`)
  const order = columns
    .filter(({ name }) => key.includes(name))
    .toSorted((a, b) => key.indexOf(a.name) - key.indexOf(b.name))
    .map(({ name, type }) => (type === "text" ? `"${name}" COLLATE "C"` : `"${name}"`))
  const cursor = `transfer_${table}`
  await connection.script(
    `DECLARE ${cursor} NO SCROLL CURSOR FOR SELECT ${values.join(", ")} FROM ${table} ORDER BY ${order.join(", ")}`,
  )
  const fetch: Statement = { name: `fetch_${cursor}`, text: `FETCH ${ROWS_PER_CHUNK} FROM ${cursor}`, params: [] }
  for (;;) {
    const rows = await connection.run<Record<string, unknown>>(fetch)
    yield { table, columns: names, rows: rows.map((row) => columns.map((column) => toCell(column, row[column.name]))) }
    if (rows.length < ROWS_PER_CHUNK) break
  }
  await connection.script(`CLOSE ${cursor}`)
}

const toCell = ({ table, name }: Column, value: unknown): Cell => {
  if (value === null) return null
  if (HOLDER_COLUMNS.includes(`${table}.${name}`)) return 1
  if (typeof value === "boolean") return value ? 1 : 0
  return Array.isArray(value) ? JSON.stringify(value) : (value as Cell)
}
