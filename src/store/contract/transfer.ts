// Contract of a copy of the whole database: for backups, for restoring them, and for the move from SQLite to Postgres. A row has the same
// form in both stores, so that one can be loaded into the other.

/** Value of a column. Booleans are 0 and 1, instants ISO text, lists of ids JSON text. */
export type Cell = string | number | null

/** Some rows of a table. Tables follow one another; the columns of a table are the same in all of its chunks. */
export interface TableChunk {
  table: string
  columns: readonly string[]
  rows: readonly (readonly Cell[])[]
}

export interface Dump {
  /** Number of migrations that the database has. */
  schemaVersion: number
  chunks: Iterable<TableChunk> | AsyncIterable<TableChunk>
}

/** Number of rows and SHA-256 of their JSON, by table. */
export type TableDigests = Record<string, { rows: number; sha256: string }>

export interface TransferStore {
  /** Number of migrations that this Ork knows. */
  readonly schemaVersion: number
  /** Returns whether the database has no tables of Ork. */
  isBlank(): Promise<boolean>
  /**
   * Calls `use` with all rows as of one moment, while other processes go on writing. Lease holders and the event log are left out: they
   * belong to the processes of this database. With `movedTo` (SQLite only), other processes wait with their writes, and when `use` is done,
   * the database is marked as moved to that address: stores on it are rejected from then on.
   */
  dump<T>(use: (dump: Dump) => Promise<T>, options?: { movedTo?: string }): Promise<T>
  /**
   * Creates the tables, fills them and reads them back, in one transaction. Attempts in flight then belong to a dead holder, so that the
   * next server ends or adopts them as after a crash. Throws Conflict unless the database is blank.
   */
  load(dump: Dump): Promise<TableDigests>
}
