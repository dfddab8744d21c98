// One SQLite database in memory for all seeds, emptied for each.

import { closeSync, ftruncateSync, openSync, readSync, rmSync } from "node:fs"
import { join } from "node:path"
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { openSqlite } from "../../../src/store/sqlite/sqlite.ts"
import { VirtualClock } from "../clock.ts"
import { Rng } from "../rng.ts"
import type { OpenOptions, SimDatabase, SimDatabases } from "./database.ts"
import { makeFolder } from "./folder.ts"
import { SharedConnection } from "./shared-connection.ts"
import { TableReader } from "./table-reader.ts"

/** More than a store writes to its wake file. */
const WAKE_BYTES = 256

export const sqliteDatabases = async (): Promise<SimDatabases> => {
  const folder = makeFolder()
  const path = join(folder, "ork.db")
  const shared = new SharedConnection()
  const connection = shared.take()
  const store = await openSqlite({ path, connection, clock: new VirtualClock(), random: new Rng("template") })
  await store.migrate()
  await store.close()
  shared.giveBack(connection)
  shared.handle.exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
  const reset = resetOf(shared.handle)
  const tables = new TableReader(shared.handle)
  const wakeFile = openSync(`${path}.wake`, "a+", 0o600)
  return {
    create: async () => {
      shared.handle.exec(reset)
      ftruncateSync(wakeFile)
      tables.refresh()
      return new SqliteDatabase(path, { shared, tables, wakeFile })
    },
    close: async () => {
      shared.close()
      closeSync(wakeFile)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Returns the statements that bring all tables back to what they contain now. */
const resetOf = (db: DatabaseSync): string => {
  const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all()
  const statements = names.flatMap(({ name }) => [
    `DELETE FROM "${String(name)}"`,
    ...db
      .prepare(`SELECT * FROM "${String(name)}"`)
      .all()
      .map((row) => insertOf(String(name), row)),
  ])
  return `BEGIN; ${statements.join("; ")}; COMMIT`
}

const insertOf = (table: string, row: Record<string, SQLOutputValue>): string =>
  `INSERT INTO "${table}" VALUES (${Object.values(row).map(literalOf).join(", ")})`

const literalOf = (value: SQLOutputValue): string => {
  if (value === null) return "NULL"
  if (typeof value === "number") return String(value)
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`
  throw new Error("the schema has rows with values of other types")
}

interface Parts {
  shared: SharedConnection
  tables: TableReader
  wakeFile: number
}

class SqliteDatabase implements SimDatabase {
  readonly leasesOnly = false
  readonly claimsNewHooks = true
  readonly ledger = "ledger"
  readonly tables: TableReader
  readonly #path: string
  readonly #shared: SharedConnection
  readonly #wakeFile: number
  readonly #buffer = Buffer.alloc(WAKE_BYTES)
  #wakes = Buffer.alloc(0)

  constructor(path: string, { shared, tables, wakeFile }: Parts) {
    this.#path = path
    this.#shared = shared
    this.#wakeFile = wakeFile
    this.tables = tables
  }

  async openStore(options: OpenOptions): Promise<ServerStore> {
    const connection = this.#shared.take()
    const store = await openSqlite({ path: this.#path, connection, ...options })
    const { close } = store
    return Object.assign(store, {
      close: async () => {
        await close()
        this.#shared.giveBack(connection)
      },
    })
  }

  /** Processes on one file wake each other by writing to a file beside it. */
  async refresh(): Promise<string | null> {
    if (this.#shared.owner !== null) throw new Error("a store call returns before its transaction has ended")
    this.tables.refresh()
    const written = this.#buffer.subarray(0, readSync(this.#wakeFile, this.#buffer, 0, WAKE_BYTES, 0))
    if (written.equals(this.#wakes)) return null
    this.#wakes = Buffer.from(written)
    return written.toString()
  }

  async close(): Promise<void> {}
}
