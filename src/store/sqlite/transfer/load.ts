// Fills a blank database with the tables of a dump, in one transaction: a process that dies leaves the file blank.

import { newHolderId } from "../../../core/model/ids.ts"
import type { Dump, TableChunk, TableDigests } from "../../contract/transfer.ts"
import { compareDigests, notBlank, TableDigester } from "../../shared/table-digests.ts"
import { FORMER_HOLDER, HOLDER_COLUMNS, SEQUENCES } from "../../shared/tables.ts"
import type { Database } from "../connection/database.ts"
import { whileBusy } from "../connection/writer.ts"
import { applyMigrations, MIGRATIONS, schemaVersion } from "../schema/migrations.ts"
import type { StoreContext } from "../tx.ts"
import { readTables } from "./dump.ts"

export const load = async (context: StoreContext, dump: Dump): Promise<TableDigests> => {
  const { db } = context
  await whileBusy(db, () => db.exec("BEGIN EXCLUSIVE"))
  try {
    const digests = await fill(context, dump)
    db.exec("COMMIT")
    return digests
  } catch (error) {
    db.rollback()
    throw error
  }
}

const ANY_TABLE = "SELECT name FROM sqlite_schema LIMIT 1"

export const isBlank = (db: Database): boolean => schemaVersion(db) === 0 && db.get(ANY_TABLE) === undefined

const fill = async (context: StoreContext, dump: Dump): Promise<TableDigests> => {
  const { db } = context
  if (!isBlank(db)) throw notBlank(db.where, "move its file away, or point ORK_DATABASE_URL at another one")
  applyMigrations(db, MIGRATIONS.slice(0, dump.schemaVersion))
  const holder = insertFormerHolder(context)
  const source = new TableDigester()
  for await (const chunk of dump.chunks) {
    source.add(chunk)
    if (chunk.table === SEQUENCES) setSequences(db, chunk)
    else insert(db, chunk, holder)
  }
  const copy = new TableDigester()
  for (const chunk of readTables(db)) copy.add(chunk)
  compareDigests(db.where, source.digests(), copy.digests())
  applyMigrations(db, MIGRATIONS)
  return copy.digests()
}

const INSERT_HOLDER = `
INSERT INTO holders (id, kind, name, process, lease_ms, lease_until, dead) VALUES (?, ?, ?, ?, 0, ?, 1) RETURNING seq`

/** Returns the number of a dead holder, which owns the attempts in flight. */
const insertFormerHolder = ({ db, clock, random }: StoreContext): number => {
  const { kind, name, process } = FORMER_HOLDER
  const now = clock.now()
  const at = new Date(now).toISOString()
  return db.get<[number]>(INSERT_HOLDER, newHolderId(now, random.hex128()), kind, name, process, at)![0]
}

const insert = (db: Database, { table, columns, rows }: TableChunk, holder: number): void => {
  // The padding of a row saves time when it grows; most copied rows have finished.
  const padding = table === "tasks"
  const names = [...columns.map((name) => `"${name}"`), ...(padding ? ["padding"] : [])]
  const values = [...columns.map((_, i) => `?${i + 1}`), ...(padding ? ["NULL"] : [])]
  const sql = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${values.join(", ")})`
  const holders = columns.map((name) => HOLDER_COLUMNS.includes(`${table}.${name}`))
  for (const row of rows) db.put(sql, ...row.map((value, i) => (holders[i] && value !== null ? holder : value)))
}

const SET_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1"
const ADD_SEQUENCE =
  "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2 WHERE ?1 IN (SELECT name FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%')"

const setSequences = (db: Database, { rows }: TableChunk): void => {
  for (const [table, last] of rows) if (db.run(SET_SEQUENCE, table!, last!) === 0) db.run(ADD_SEQUENCE, table!, last!)
}
