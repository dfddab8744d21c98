// Connections by purpose, opened on demand, and transactions on them. A broken connection is replaced by the next caller, so the
// store recovers by itself.

import { messageOf } from "../../../core/values/error-message.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Connection, type ConnectionOptions, hostOf, isCollision, type Target } from "./connection.ts"
import type { PlanAge } from "./plan-age.ts"
import { bind, type Params, type SqlRunner, type Statement, type Value } from "./statement.ts"

const MAX_COLLISIONS = 8
/**
 * Length in characters of one parameter above which a transaction is about many rows. It then asks for each reply by itself, so that
 * Node reads one while Postgres works on the next. A small transaction finishes sooner when its replies come together.
 */
const LARGE = 1_000

/** At most `size` connections. Callers that find none idle wait in line. */
export class ConnectionPool {
  readonly #target: Target
  readonly #size: number
  readonly #options: ConnectionOptions
  /** Oldest first. Callers get the oldest one, because it has prepared and planned most statements. */
  readonly #idle: Connection[] = []
  readonly #waiting: (() => void)[] = []
  #busy = 0
  #closed = false

  constructor(target: Target, size: number, options: ConnectionOptions) {
    this.#target = target
    this.#size = size
    this.#options = options
  }

  /** For messages. */
  get #host(): string {
    return hostOf(this.#target.url)
  }

  /** Runs `work` with a connection and no transaction; see `read`. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    while (this.#busy >= this.#size) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    if (this.#closed) throw new StoreUnavailable(this.#host, "it was closed")
    this.#busy += 1
    let connection: Connection | undefined
    try {
      connection = this.#idle.shift()
      while (connection?.broken) connection = this.#idle.shift()
      connection ??= await Connection.open(this.#target, this.#options)
      return await work(connection)
    } finally {
      this.#busy -= 1
      connection?.sync()
      if (connection !== undefined && !connection.broken) {
        if (this.#closed) await connection.close()
        else this.#putBack(connection)
      }
      // The idle connections are probably broken too.
      if (connection?.broken === true) for (const idle of this.#idle.splice(0)) idle.destroy()
      this.#waiting.shift()?.()
    }
  }

  /** Runs reads, which need no transaction; behind a pooler only a transaction has the settings. */
  read<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.use(async (connection) => {
      if (!connection.pooled) return await work(connection)
      connection.begin()
      try {
        const result = await work(connection)
        await connection.commit()
        return result
      } catch (error) {
        if (!connection.broken) await connection.rollback().catch(() => {})
        throw error
      }
    })
  }

  #putBack(connection: Connection): void {
    const younger = this.#idle.findIndex(({ openedAt }) => openedAt > connection.openedAt)
    this.#idle.splice(younger === -1 ? this.#idle.length : younger, 0, connection)
  }

  /**
   * Runs `work` in one transaction. `work` may send COMMIT itself (`commit`), together with statements whose replies it awaits
   * afterwards. Repeats `work` after a collision with another transaction: it must have no effect outside of the database.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.use(async (connection) => {
      for (let collisions = 0; ; collisions++) {
        const transaction = new Transaction(connection)
        try {
          const result = await work(transaction)
          await transaction.commit()
          return result
        } catch (error) {
          await transaction.rollback()
          if (!isCollision(error)) throw error
          if (collisions === MAX_COLLISIONS) throw new StoreUnavailable(this.#host, messageOf(error), { cause: error })
        }
      }
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#idle.splice(0).map((connection) => connection.close()))
  }
}

export class Transaction implements SqlRunner {
  readonly #connection: Connection
  #begun = false
  #large = false
  #commit: Promise<unknown> | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  run<Row>(statement: Statement, params: Params | readonly Value[] = []): Promise<Row[]> {
    const values = bind(statement, params)
    if (!this.#begun) this.#connection.begin()
    this.#begun = true
    this.#large ||= values.some((value) => typeof value === "string" && value.length > LARGE)
    return this.#large ? this.#connection.runAndSync<Row>(statement, values) : this.#connection.run<Row>(statement, values)
  }

  get planAge(): PlanAge {
    return this.#connection.planAge
  }

  /** Sends COMMIT. Its reply counts only if every statement before it succeeded: await those first. */
  commit(): Promise<unknown> {
    this.#commit ??= this.#begun ? this.#connection.commit() : Promise.resolve()
    return this.#commit
  }

  async rollback(): Promise<void> {
    if (this.#begun && !this.#connection.broken) await this.#connection.rollback().catch(() => {})
  }
}
