// Transactions in which a user's function writes, and Ork records the function's result. They have connections of their own, with the
// settings of the user's role.

import pg from "pg"
import { outputColumns } from "../../shared/codec.ts"
import { StoreUnavailable, UnusableTransaction } from "../../contract/errors.ts"
import { codeOf, hostOf, quoted, toStoreError } from "../connection/connection.ts"
import { literal } from "../connection/literal.ts"
import { statement } from "../connection/statement.ts"
import type { TransactionStep, TransactionStore } from "../../contract/transactions.ts"
import type { Access } from "../tx.ts"

/** Transactions that are open at once; further ones wait. */
const MAX_TRANSACTIONS = 10
const IDLE_MS = 10_000

/** SQLSTATEs of connections that Postgres ends because the transaction takes longer than the user's settings allow. */
const TOO_LONG = /^25P/

const FIND = statement(
  "step_recorded",
  "SELECT 1 FROM steps WHERE task_id = :row AND name = :name AND occurrence = :occurrence::int AND state = 'success'",
)

/** A client as the user's function gets it: without queries when the function has returned, because others use its connection then. */
class EndingClient {
  readonly client: pg.PoolClient
  #ended = false

  constructor(client: pg.PoolClient) {
    this.client = new Proxy(client, {
      get: (target, key): unknown => {
        if (key === "query" && this.#ended) return rejectQuery
        const value: unknown = Reflect.get(target, key, target)
        return typeof value === "function" ? (value.bind(target) as unknown) : value
      },
    })
  }

  end(): void {
    this.#ended = true
  }
}

const rejectQuery = (): Promise<never> =>
  Promise.reject(new UnusableTransaction("tx has ended: await its queries before the function returns"))

export class UserTransactions {
  readonly #pool: pg.Pool
  readonly #url: string
  readonly #complete: string
  readonly #read: Access["read"]

  constructor({ url, schema }: { url: string; schema: string }, read: Access["read"]) {
    this.#read = read
    this.#url = url
    this.#pool = new pg.Pool({
      connectionString: url,
      application_name: "ork transaction",
      max: MAX_TRANSACTIONS,
      idleTimeoutMillis: IDLE_MS,
      allowExitOnIdle: true,
    })
    // The pool drops a connection that breaks while nobody uses it.
    this.#pool.on("error", () => {})
    this.#complete = `SELECT ${quoted(schema)}.complete`
  }

  readonly record: TransactionStore["recordInTransaction"] = async (step, work) => {
    const client = await this.#connect()
    const tx = new EndingClient(client)
    let broken: Error | undefined
    const onError = (error: Error): void => void (broken ??= error)
    client.on("error", onError)
    try {
      await client.query("BEGIN").catch((error: unknown) => this.#throwStoreError(error))
      const columns = outputColumns(await work(tx.client))
      tx.end()
      const { row, attemptId, name, occurrence, position, startedAt } = step
      const values = [row, attemptId, columns[0], name, occurrence, columns[1], columns[2], startedAt, position]
      const { rows } = await client.query<{ held: boolean }>(`${this.#complete}(${values.map(literal).join(", ")}) AS held`)
      if (!rows[0]!.held) {
        await client.query("ROLLBACK")
        return false
      }
      await client.query("COMMIT").catch(async (error: unknown) => {
        if (!(await this.#isRecorded(step))) throw error
        broken = error as Error
      })
      return true
    } catch (error) {
      await client.query("ROLLBACK").catch(onError)
      if (broken === undefined || TOO_LONG.test(codeOf(broken)) || TOO_LONG.test(codeOf(error))) throw error
      throw new StoreUnavailable(hostOf(this.#url), broken.message, { cause: error })
    } finally {
      tx.end()
      client.off("error", onError)
      client.release(broken)
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    return await this.#pool.connect().catch((error: unknown) => this.#throwStoreError(error))
  }

  #throwStoreError(error: unknown): never {
    throw toStoreError(error, this.#url)
  }

  async #isRecorded({ row, name, occurrence }: TransactionStep): Promise<boolean> {
    return (await this.#read((connection) => connection.run(FIND, { row, name, occurrence }))).length > 0
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}
