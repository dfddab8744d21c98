// Reads the whole database in one transaction on a connection of its own. Readers of a write-ahead log do not block writers.

import { SchemaTooNew } from "../../contract/errors.ts"
import type { Cell, Dump, TableChunk } from "../../contract/transfer.ts"
import { chunked, HOLDER_COLUMNS, NOT_COPIED_COLUMNS, SEQUENCE_COLUMNS, SEQUENCES, TABLES } from "../../shared/tables.ts"
import { Database } from "../connection/database.ts"
import { whileBusy } from "../connection/writer.ts"
import { MIGRATIONS, schemaVersion } from "../schema/migrations.ts"
import { markMoved } from "./moved.ts"

export const dump = async <T>(
  path: string,
  use: (dump: Dump) => Promise<T>,
  { movedTo }: { movedTo?: string } = {},
): Promise<T> => {
  const db = new Database(path)
  try {
    const found = await whileBusy(db, () => {
      if (!db.inTransaction) db.exec(movedTo === undefined ? "BEGIN" : "BEGIN IMMEDIATE")
      // The first read decides what the transaction sees.
      return schemaVersion(db)
    })
    if (found > MIGRATIONS.length) throw new SchemaTooNew(path, found, MIGRATIONS.length)
    const result = await use({ schemaVersion: found, chunks: readTables(db) })
    if (movedTo !== undefined) markMoved(db, movedTo)
    db.exec("COMMIT")
    return result
  } finally {
    db.rollback()
    db.close()
  }
}

const COLUMNS = "SELECT name FROM pragma_table_info(?) ORDER BY name"

const LAST_NUMBERS = "SELECT name, seq FROM sqlite_sequence ORDER BY name"

/** Yields all tables. The caller has begun a transaction. */
export function* readTables(db: Database): Generator<TableChunk> {
  for (const [table, key] of Object.entries(TABLES)) {
    const columns = columnsOf(db, table)
    if (columns.length === 0) continue
    const values = columns.map((column) =>
      HOLDER_COLUMNS.includes(`${table}.${column}`) ? `iif(${column} IS NULL, NULL, 1)` : `"${column}"`,
    )
    const rows = db.iterate<Cell[]>(`SELECT ${values.join(", ")} FROM ${table} ORDER BY ${key.join(", ")}`)
    yield* chunked(table, columns, rows)
  }
  const rows = db.all<[string, number]>(LAST_NUMBERS).filter(([table]) => table in TABLES)
  yield { table: SEQUENCES, columns: SEQUENCE_COLUMNS, rows }
}

/** Returns the copied columns of a table, in alphabetical order; none if the schema does not have it yet. */
const columnsOf = (db: Database, table: string): string[] =>
  db
    .all<[string]>(COLUMNS, table)
    .map(([name]) => name)
    .filter((name) => !NOT_COPIED_COLUMNS.includes(`${table}.${name}`))
