// One connection of node:sqlite with prepared statements. `get` and `all` return rows as arrays, which cost half as much as the objects
// of `find` and `list`. All calls are synchronous; writer.ts combines them into transactions.
//
// Node before 22.16 returns rows as objects and binds numbered parameters by name. So the columns of a statement need distinct names,
// and a statement numbers all of its parameters or none. Tests check both rules.
//
// SQLite plans a limit that is only a parameter by its value and compiles the statement again at each call, which costs 30 times as
// much as a short read. So limits are written `LIMIT ? + 0`.

import { statSync } from "node:fs"
import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite"
import { InvalidValue, StoreUnavailable } from "../../contract/errors.ts"

/** Time that a call blocks on the transaction of another process before it is retried later. */
const BUSY_MS = 20

/**
 * A checkpoint runs inside the commit that reaches its size and syncs by itself: with 4,000 pages it delayed callers by 150 ms, with
 * 1,000 by less than 5 ms, at the same throughput. A page cache of 16 or 64 MB made nothing faster than one of 4 MB, with files of up to
 * 430 MB: the system caches the file too.
 */
const PRAGMAS = `
PRAGMA busy_timeout = ${BUSY_MS};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -4096;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 33554432;
PRAGMA temp_store = MEMORY;
`

export type Value = SQLInputValue

interface Abilities {
  /** Rows can be returned as arrays. */
  arrays: boolean
  /** Numbered parameters can be bound by position. */
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
  /** The parameters are bound by name. */
  named: boolean
  /** Names of the columns of a statement whose rows were returned as objects before. */
  columns: readonly string[] | null
}

export class Database {
  /** Path of the database, for messages. */
  readonly where: string
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, Prepared>()
  readonly #abilities: Abilities
  #open = true

  /** `handle`: an open database, which is not closed with this one. */
  constructor(path: string, { abilities = ABILITIES, handle }: { abilities?: Abilities; handle?: DatabaseSync } = {}) {
    this.where = path
    this.#abilities = abilities
    this.#db = handle ?? new DatabaseSync(path, { enableForeignKeyConstraints: false })
  }

  /** Sets the pragmas. Fails while another process has locked the file; the caller retries. */
  configure(): void {
    this.#db.exec(PRAGMAS)
  }

  /** Returns the number of changed rows. */
  run(sql: string, ...values: Value[]): number {
    const { statement, named } = this.#prepared(sql)
    return (named ? statement.run(byName(values)) : statement.run(...values)).changes as number
  }

  /** Runs a statement without returning the number of changed rows, which saves a quarter of a short statement. */
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

  /** Yields rows one by one, for tables that do not fit into memory. */
  *iterate<T extends readonly unknown[]>(sql: string): Generator<T> {
    for (const row of this.#prepared(sql).statement.iterate()) {
      yield (this.#abilities.arrays ? row : Object.values(row)) as unknown as T
    }
  }

  /** Returns one row as an object. */
  find<T>(sql: string, ...values: Value[]): T | undefined {
    return this.list<T>(sql, ...values)[0]
  }

  /**
   * Returns rows as objects, for reads outside of the loop. It builds them from arrays, which takes a third of the time of the objects that
   * SQLite returns and that have to be copied, because they have no prototype.
   */
  list<T>(sql: string, ...values: Value[]): T[] {
    const prepared = this.#prepared(sql)
    const { statement, named } = prepared
    const rows = named ? statement.all(byName(values)) : statement.all(...values)
    if (!this.#abilities.arrays) return rows.map((row) => ({ ...row }) as T)
    const columns = (prepared.columns ??= statement.columns().map(({ name }) => name))
    return (rows as unknown as Value[][]).map((row) => objectOf(columns, row) as T)
  }

  /** Runs a statement of a user, whose parameters are `$1`, `$2`, … or `?`. */
  query<T>(sql: string, values: readonly Value[]): { rows: T[]; rowCount: number } {
    const statement = this.#db.prepare(sql)
    const rows = DOLLAR.test(sql)
      ? statement.all(Object.fromEntries(values.map((value, i) => [`$${i + 1}`, value])))
      : statement.all(...values)
    const [changes] = this.get<[number]>("SELECT changes()")!
    return { rows: rows.map((row) => ({ ...row }) as T), rowCount: rows.length > 0 ? rows.length : changes }
  }

  exec(sql: string): void {
    this.#db.exec(sql)
  }

  rollback(): void {
    if (this.inTransaction) this.#db.exec("ROLLBACK")
  }

  /** SQLite rolls back by itself when the disk fails. */
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
      prepared = { statement: this.#db.prepare(sql), named: !this.#abilities.numbers && NUMBERED.test(sql), columns: null }
      if (this.#abilities.arrays) prepared.statement.setReturnArrays(true)
      this.#statements.set(sql, prepared)
    }
    return prepared
  }
}

const objectOf = (columns: readonly string[], row: readonly Value[]): { [column: string]: Value } => {
  const object: { [column: string]: Value } = {}
  for (let i = 0; i < columns.length; i++) object[columns[i]!] = row[i]!
  return object
}

/** Matches a statement with numbered parameters. */
export const NUMBERED = /\?\d/

/** Matches a statement with parameters as Postgres writes them. */
const DOLLAR = /\$\d/

const byName = (values: Value[]): { [name: string]: Value } =>
  Object.fromEntries(values.map((value, i) => [`?${i + 1}`, value]))

/** Detects a transaction on Node before 22.16: transactions do not nest, and an empty one takes no lock. */
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
const UNAVAILABLE = new Set([8, 10, 13, 14]) // READONLY, IOERR, FULL, CANTOPEN
const DAMAGED = new Set([11, 26]) // CORRUPT, NOTADB
const INVALID_VALUE = new Set([18, 19, 20, 25]) // TOOBIG, CONSTRAINT, MISMATCH, RANGE

const codeOf = (error: unknown): number | null =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode & PRIMARY : null

/** Returns whether another process is writing: the caller retries. */
export const isBusy = (error: unknown): boolean => {
  const code = codeOf(error)
  return code === SQLITE_BUSY || code === SQLITE_LOCKED
}

/** Turns errors of the file or the disk into StoreUnavailable and returns other errors unchanged. */
export const asUnavailable = (db: Database, error: unknown): unknown => {
  const code = codeOf(error) ?? -1
  if (DAMAGED.has(code)) return damaged(db, (error as Error).message, { cause: error })
  return UNAVAILABLE.has(code) ? new StoreUnavailable(db.where, (error as Error).message, { cause: error }) : error
}

const damaged = ({ where }: Database, reason: string, options?: ErrorOptions): StoreUnavailable =>
  new StoreUnavailable(
    where,
    `its file is damaged (${reason}); stop what uses it, move ${where} and ${where}-wal to another place, and run ` +
      `\`ork restore BACKUP\`; without a backup, \`sqlite3 ${where} .recover\` saves what can be read`,
    options,
  )

/** Larger files would delay the start of a server for seconds. */
const MAX_CHECKED_BYTES = 256 << 20

/** Reads the whole file, unless it is large, and throws if its structure is damaged. */
export const rejectDamaged = (db: Database): void => {
  const size = statSync(db.where, { throwIfNoEntry: false })?.size ?? 0
  if (size > MAX_CHECKED_BYTES) return
  const [found] = db.get<[string]>("PRAGMA quick_check(1)")!
  if (found !== "ok") throw damaged(db, found.split("\n").at(-1)!)
}

/** Turns errors about the content of a value into InvalidValue. A value that is out of range for JavaScript never reaches SQLite. */
export const asInvalidValue = (error: unknown): unknown =>
  error instanceof RangeError || INVALID_VALUE.has(codeOf(error) ?? 0)
    ? new InvalidValue((error as Error).message, { cause: error })
    : error
