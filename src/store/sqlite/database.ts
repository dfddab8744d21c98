// One connection of node:sqlite with its statements prepared once. Rows come as arrays: objects cost twice as much here. Node before
// 22.16 knows objects alone, so the columns of a statement have names that differ (the tests look), and can be had in order.
// Everything is synchronous; `writer.ts` makes transactions of it.
//
// SQLite looks at the value of a limit that is just a parameter for its plan, and so compiles the statement anew at each call, which
// costs 30 times as much as a short read: limits are written `LIMIT ? + 0`.

import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite"
import { StoreUnavailable } from "../errors.ts"

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

const GIVES_ARRAYS = "setReturnArrays" in StatementSync.prototype

export class Database {
  /** For messages. */
  readonly where: string
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  readonly #arrays: boolean
  #open = true

  constructor(path: string, { arrays = GIVES_ARRAYS }: { arrays?: boolean } = {}) {
    this.where = path
    this.#arrays = arrays
    this.#db = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  }

  /** Apart from the constructor, since a locked file makes it fail and it is tried again. */
  configure(): void {
    this.#db.exec(PRAGMAS)
  }

  run(sql: string, ...values: Value[]): number {
    return this.#statement(sql).run(...values).changes as number
  }

  get<T extends readonly unknown[]>(sql: string, ...values: Value[]): T | undefined {
    const row = this.#statement(sql).get(...values)
    return this.#row(row) as T | undefined
  }

  all<T extends readonly unknown[]>(sql: string, ...values: Value[]): T[] {
    const rows = this.#statement(sql).all(...values)
    return (this.#arrays ? rows : rows.map((row) => this.#row(row))) as unknown as T[]
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

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      if (this.#arrays) statement.setReturnArrays(true)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  #row(row: object | undefined): unknown {
    return row === undefined || this.#arrays ? row : Object.values(row)
  }
}

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
