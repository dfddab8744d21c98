// One connection of node:sqlite with its statements prepared once. Rows come as arrays: objects cost twice as much here.
// Everything is synchronous; `writer.ts` makes transactions of it.
//
// An older Node 22 can do less: rows are objects (before 22.16), so the columns of a statement have names that differ and can be had in
// order; and parameters with numbers are bound by name, so a statement has numbers for all of them or for none. The tests look.
//
// SQLite looks at the value of a limit that is just a parameter for its plan, and so compiles the statement anew at each call, which
// costs 30 times as much as a short read: limits are written `LIMIT ? + 0`.

import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite"
import { StoreUnavailable } from "../../contract/errors.ts"

/** How long one call may block on another process's transaction before it is tried again later. */
const BUSY_MS = 20

/**
 * A checkpoint runs inside the commit that reaches its size, with syncs of its own: at 4,000 pages it held every caller up for
 * 150 ms, at 1,000 for less than 5, with the same throughput.
 */
const PRAGMAS = `
PRAGMA busy_timeout = ${BUSY_MS};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 33554432;
PRAGMA temp_store = MEMORY;
`

export type Value = SQLInputValue

interface Abilities {
  /** Rows come as arrays. */
  arrays: boolean
  /** `?1` takes the first value. */
  numbers: boolean
}

const takesNumbers = (): boolean => {
  const db = new DatabaseSync(":memory:")
  try {
    return db.prepare("SELECT ?1").get(1) !== undefined
  } catch {
    return false
  } finally {
    db.close()
  }
}

const ABILITIES: Abilities = { arrays: "setReturnArrays" in StatementSync.prototype, numbers: takesNumbers() }

interface Prepared {
  statement: StatementSync
  /** Its parameters are bound by name. */
  named: boolean
}

export class Database {
  /** For messages. */
  readonly where: string
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, Prepared>()
  readonly #abilities: Abilities
  #open = true

  constructor(path: string, abilities = ABILITIES) {
    this.where = path
    this.#abilities = abilities
    this.#db = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  }

  /** Apart from the constructor, since a locked file makes it fail and it is tried again. */
  configure(): void {
    this.#db.exec(PRAGMAS)
  }

  run(sql: string, ...values: Value[]): number {
    const { statement, named } = this.#prepared(sql)
    return (named ? statement.run(byName(values)) : statement.run(...values)).changes as number
  }

  /** Like `run`, where nobody asks how many rows it changed: to make that answer is a quarter of a short statement. */
  put(sql: string, ...values: Value[]): void {
    this.get(sql, ...values)
  }

  get<T extends readonly unknown[]>(sql: string, ...values: Value[]): T | undefined {
    const { statement, named } = this.#prepared(sql)
    const row = named ? statement.get(byName(values)) : statement.get(...values)
    return (row === undefined || this.#abilities.arrays ? row : Object.values(row)) as T | undefined
  }

  all<T extends readonly unknown[]>(sql: string, ...values: Value[]): T[] {
    const { statement, named } = this.#prepared(sql)
    const rows = named ? statement.all(byName(values)) : statement.all(...values)
    return (this.#abilities.arrays ? rows : rows.map((row) => Object.values(row))) as unknown as T[]
  }

  exec(sql: string): void {
    this.#db.exec(sql)
  }

  rollback(): void {
    if (this.inTransaction) this.#db.exec("ROLLBACK")
  }

  /** SQLite ends one by itself when the disk fails. */
  get inTransaction(): boolean {
    return this.#db.isTransaction ?? inTransaction(this.#db)
  }

  get open(): boolean {
    return this.#open
  }

  close(): void {
    this.#open = false
    this.#statements.clear()
    this.#db.close()
  }

  #prepared(sql: string): Prepared {
    let prepared = this.#statements.get(sql)
    if (prepared === undefined) {
      const { arrays, numbers } = this.#abilities
      prepared = { statement: this.#db.prepare(sql), named: !numbers && NUMBERED.test(sql) }
      if (arrays) prepared.statement.setReturnArrays(true)
      this.#statements.set(sql, prepared)
    }
    return prepared
  }
}

/** Has parameters with numbers. */
export const NUMBERED = /\?\d/

const byName = (values: Value[]): { [name: string]: Value } =>
  Object.fromEntries(values.map((value, i) => [`?${i + 1}`, value]))

/** For Node before 22.16, which does not tell: there is none inside another, and an empty one takes no lock. */
export const inTransaction = (db: Pick<DatabaseSync, "exec">): boolean => {
  try {
    db.exec("BEGIN")
  } catch {
    return true
  }
  db.exec("ROLLBACK")
  return false
}

const PRIMARY = 0xff
const SQLITE_BUSY = 5
const SQLITE_LOCKED = 6
const UNAVAILABLE = new Set([8, 10, 11, 13, 14, 26]) // READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB

const codeOf = (error: unknown): number | null =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode & PRIMARY : null

/** Another process is writing: try again. */
export const isBusy = (error: unknown): boolean => {
  const code = codeOf(error)
  return code === SQLITE_BUSY || code === SQLITE_LOCKED
}

/** Trouble with the file or the disk becomes StoreUnavailable; every other error stays what it is. */
export const asUnavailable = (db: Database, error: unknown): unknown => {
  const code = codeOf(error)
  return code !== null && UNAVAILABLE.has(code)
    ? new StoreUnavailable(db.where, (error as Error).message, { cause: error })
    : error
}
