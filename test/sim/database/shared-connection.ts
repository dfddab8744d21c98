// One SQLite database in memory, and one connection to it, for all stores of a thread. To the stores it looks like a connection of their
// own: while one of them has a transaction open, the database is busy for the others.

import { DatabaseSync } from "node:sqlite"
import { Database, type Value } from "../../../src/store/sqlite/connection/database.ts"

const SQLITE_BUSY = 5

export class SharedConnection {
  readonly handle = new DatabaseSync(":memory:")
  /** The view that has begun a transaction; null: no transaction is open. */
  owner: ConnectionView | null = null
  #free: ConnectionView[] = []

  /** Returns a view that no other store uses. Views are used again, with their prepared statements. */
  take(): ConnectionView {
    return this.#free.pop() ?? new ConnectionView(this)
  }

  giveBack(view: ConnectionView): void {
    view.rollback()
    this.#free.push(view)
  }

  close(): void {
    this.handle.close()
  }
}

/** The connection, as one store sees it. */
export class ConnectionView extends Database {
  readonly #shared: SharedConnection

  constructor(shared: SharedConnection) {
    super(":memory:", { handle: shared.handle })
    this.#shared = shared
  }

  override run(sql: string, ...values: Value[]): number {
    this.#waitForOthers()
    const changes = super.run(sql, ...values)
    if (sql.startsWith("BEGIN")) this.#shared.owner = this
    else if (sql === "COMMIT") this.#shared.owner = null
    return changes
  }

  override get<T extends readonly unknown[]>(sql: string, ...values: Value[]): T | undefined {
    this.#waitForOthers()
    return super.get<T>(sql, ...values)
  }

  override all<T extends readonly unknown[]>(sql: string, ...values: Value[]): T[] {
    this.#waitForOthers()
    return super.all<T>(sql, ...values)
  }

  override list<T>(sql: string, ...values: Value[]): T[] {
    this.#waitForOthers()
    return super.list<T>(sql, ...values)
  }

  override rollback(): void {
    if (this.#shared.owner !== this) return
    super.rollback()
    this.#shared.owner = null
  }

  /** Throws what SQLite throws while another process has locked the file: the store tries again later. */
  #waitForOthers(): void {
    const { owner } = this.#shared
    if (owner === null || owner === this) return
    throw Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: SQLITE_BUSY })
  }
}
