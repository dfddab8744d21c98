// Transactions over sessions, and who uses which: one session belongs to `advance`, whose turns follow each other; the rest
// share a few. A session that broke is replaced by the next one who needs it, so the store recovers by itself.

import { StoreUnavailable } from "../../contract/errors.ts"
import { isCollision, hostOf, type SqlRunner, Connection, type Statement, type Target, type Value } from "./connection.ts"

const MAX_COLLISIONS = 8
/**
 * Characters of one value. A transaction with more is about many rows: each of its answers is asked for by itself, so that Node
 * reads one while Postgres works on the next. A small one is over sooner if they come together.
 */
const LARGE = 1_000

/** Sessions that are opened when needed, at most `size` of them; who finds none waits in line. */
export class ConnectionPool {
  readonly #target: Target
  readonly #application: string
  readonly #size: number
  readonly #idle: Connection[] = []
  readonly #waiting: (() => void)[] = []
  #busy = 0
  #closed = false

  constructor(target: Target, application: string, size: number) {
    this.#target = target
    this.#application = application
    this.#size = size
  }

  async use<T>(work: (session: Connection) => Promise<T>): Promise<T> {
    while (this.#busy >= this.#size) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    if (this.#closed) throw new StoreUnavailable(hostOf(this.#target.url), "it was closed")
    this.#busy += 1
    let session: Connection | undefined
    try {
      session = this.#idle.pop()
      while (session?.broken) session = this.#idle.pop()
      session ??= await Connection.open(this.#target, this.#application)
      return await work(session)
    } finally {
      this.#busy -= 1
      session?.sync()
      if (session !== undefined && !session.broken) {
        if (this.#closed) await session.close()
        else this.#idle.push(session)
      }
      this.#waiting.shift()?.()
    }
  }

  /**
   * One transaction. `work` may leave its last statements unanswered and send COMMIT itself by `commit`, so that it travels
   * with them. Tried again when it collided with another one: it must not have changed anything outside of the database.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.use(async (session) => {
      for (let collisions = 0; ; collisions++) {
        const tx = new Transaction(session)
        try {
          const result = await work(tx)
          await tx.commit()
          return result
        } catch (error) {
          await tx.rollback()
          if (!isCollision(error) || collisions === MAX_COLLISIONS) throw error
        }
      }
    })
  }

  /** One transaction of one statement. */
  alone<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.use((session) => session.alone<Row>(statement, values))
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#idle.splice(0).map((session) => session.close()))
  }
}

export class Transaction implements SqlRunner {
  readonly #session: Connection
  #begun = false
  #large = false
  #commit: Promise<unknown> | undefined

  constructor(session: Connection) {
    this.#session = session
  }

  run<Row>(statement: Statement, values: readonly Value[] = []): Promise<Row[]> {
    if (!this.#begun) this.#session.begin()
    this.#begun = true
    this.#large ||= values.some((value) => typeof value === "string" && value.length > LARGE)
    return this.#large ? this.#session.runAndSync<Row>(statement, values) : this.#session.run<Row>(statement, values)
  }

  /** Sends COMMIT behind what was sent. The answer counts only if everything before it was answered well: await that first. */
  commit(): Promise<unknown> {
    this.#commit ??= this.#begun ? this.#session.commit() : Promise.resolve()
    return this.#commit
  }

  async rollback(): Promise<void> {
    if (this.#begun && !this.#session.broken) await this.#session.rollback().catch(() => {})
  }
}
