// A transaction on the connection of the store, as a user's function sees it: the interface of a client of `pg`.

import { UnusableTransaction } from "../../contract/errors.ts"
import type { SqlTransaction } from "../../contract/transactions.ts"
import type { Database, Value } from "../connection/database.ts"

export class SqliteTransaction implements SqlTransaction {
  readonly #db: Database
  #open = true

  constructor(db: Database) {
    this.#db = db
  }

  /** False after the end of the function: the transaction is committed or rolled back then. */
  get open(): boolean {
    return this.#open && this.#db.inTransaction
  }

  close(): void {
    this.#open = false
  }

  async query<Row = Record<string, unknown>>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<{ rows: Row[]; rowCount: number | null }> {
    if (!this.open) throw new UnusableTransaction("tx has ended: await its queries before the function returns")
    if (ENDS_TRANSACTION.test(text)) {
      throw new UnusableTransaction("tx is committed by Ork, when the function returns, and rolled back when it throws")
    }
    return this.#db.query<Row>(text, values.map(toValue))
  }
}

const ENDS_TRANSACTION = /^\s*(?:begin|commit|end|rollback(?!\s+to\b|\s+transaction\s+to\b))\b/i

/** Converts a value as pg does: an object is JSON, a date its text. */
const toValue = (value: unknown): Value => {
  switch (typeof value) {
    case "string":
    case "number":
    case "bigint":
      return value
    case "boolean":
      return value ? 1 : 0
    case "object":
      if (value === null || value instanceof Uint8Array) return value
      return value instanceof Date ? value.toISOString() : JSON.stringify(value)
    case "undefined":
      return null
    default:
      throw new TypeError(`a value of a query is a ${typeof value}`)
  }
}
