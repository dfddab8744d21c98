// SQLite files in memory: the schema is created once and copied for each seed.

import { copyFileSync, existsSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { openSqlite } from "../../../src/store/sqlite/sqlite.ts"
import { VirtualClock } from "../clock.ts"
import { Rng } from "../rng.ts"
import type { OpenOptions, SimDatabase, SimDatabases } from "./database.ts"
import { makeFolder } from "./folder.ts"
import { TableReader } from "./table-reader.ts"

export const sqliteDatabases = async (): Promise<SimDatabases> => {
  const folder = makeFolder()
  const template = join(folder, "template.db")
  const store = await openSqlite({ path: template, clock: new VirtualClock(), random: new Rng("template") })
  await store.migrate()
  await store.close()
  const prepared = new DatabaseSync(template)
  prepared.exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
  prepared.close()
  return {
    create: async (seed) => {
      const path = join(folder, `${seed}.db`)
      copyFileSync(template, path)
      return sqliteDatabase(path)
    },
    close: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

const sqliteDatabase = (path: string): SimDatabase => {
  const connection = new DatabaseSync(path, { readOnly: true })
  const tables = new TableReader(connection)
  const wakeFile = `${path}.wake`
  let hasWakeFile = false
  let wakes = ""
  return {
    leasesOnly: false,
    claimsNewHooks: true,
    ledger: "ledger",
    tables,
    openStore: (options: OpenOptions) => openSqlite({ path, ...options }),
    // Processes on one file wake each other by writing to a file beside it.
    refresh: async () => {
      tables.refresh()
      hasWakeFile ||= existsSync(wakeFile)
      const written = hasWakeFile ? readFileSync(wakeFile, "utf8") : ""
      if (written === wakes) return null
      wakes = written
      return written
    },
    close: async () => {
      connection.close()
      for (const suffix of ["", "-wal", "-shm", ".wake"]) rmSync(path + suffix, { force: true })
    },
  }
}
