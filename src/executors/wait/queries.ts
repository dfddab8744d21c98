// Sends the queries of waits to configured Postgres databases, each in a read-only transaction with a timeout.

import pg from "pg"
import type { Connections } from "../../core/settings/connections.ts"
import { inexactNumber } from "../../core/values/exact-json.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { SecretSource } from "../../core/model/ports.ts"
import { BrokenCondition } from "./broken-condition.ts"

const MAX_CONNECTIONS = 4
const IDLE_MS = 30_000
const CONNECT_MS = 10_000
const MAX_ROW_BYTES = 256 * 1024

/** Classes of SQLSTATE after which the same query may succeed: connection, rollback, resources, state, intervention, system. */
const TRANSIENT = ["08", "40", "53", "55", "57", "58"]

interface Query {
  connection: string | null
  text: string
  values: (string | null)[]
  timeoutMs: number
}

export class Queries {
  readonly #connections: Connections
  readonly #secret: SecretSource
  readonly #pools = new Map<string, Promise<pg.Pool>>()

  constructor(connections: Connections, secret: SecretSource) {
    this.#connections = connections
    this.#secret = secret
  }

  /** Returns the first row; null without one. Throws BrokenCondition when waiting cannot help. */
  async firstRow({ connection, text, values, timeoutMs }: Query): Promise<JsonObject | null> {
    const name = this.#nameOf(connection)
    const client = await (await this.#pool(name)).connect().catch((error: unknown) => {
      throw queryError(error)
    })
    let failure: Error | undefined
    try {
      await client.query(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${Math.ceil(timeoutMs)}`)
      // The extended protocol accepts one statement only, which cannot end the transaction.
      const query: pg.QueryConfig & { queryMode: "extended" } = { text: firstRowOf(text), values, queryMode: "extended" }
      const { rows } = await client.query<{ row: string | null; bytes: number }>(query)
      await client.query("ROLLBACK")
      return parseRow(rows[0])
    } catch (error) {
      failure = error as Error
      throw queryError(error)
    } finally {
      client.release(failure)
    }
  }

  async stop(): Promise<void> {
    for (const pool of this.#pools.values()) await pool.then((open) => open.end()).catch(() => undefined)
  }

  #nameOf(given: string | null): string {
    const names = Object.keys(this.#connections)
    const known = names.length === 0 ? "none is configured" : `the connections are ${names.join(", ")}`
    const where = `(connections in ork.yaml, or ORK_CONNECTIONS)`
    if (given === null) {
      if (names.length === 1) return names[0]!
      throw new BrokenCondition(`the query needs connection, the name of a database; ${known} ${where}`)
    }
    if (Object.hasOwn(this.#connections, given)) return given
    throw new BrokenCondition(`there is no connection ${JSON.stringify(given)}; ${known} ${where}`)
  }

  #pool(name: string): Promise<pg.Pool> {
    const known = this.#pools.get(name)
    if (known !== undefined) return known
    const opening = this.#open(name)
    this.#pools.set(name, opening)
    opening.catch(() => this.#pools.delete(name))
    return opening
  }

  async #open(name: string): Promise<pg.Pool> {
    const connection = this.#connections[name]!
    const url = "url" in connection ? connection.url : await this.#secret(connection.secret)
    if (url === null) throw new BrokenCondition(`the connection ${name} needs a secret that does not exist where Ork runs`)
    const pool = new pg.Pool({
      connectionString: url,
      max: MAX_CONNECTIONS,
      idleTimeoutMillis: IDLE_MS,
      connectionTimeoutMillis: CONNECT_MS,
      allowExitOnIdle: true,
      application_name: "ork wait",
    })
    // The next query opens another connection.
    pool.on("error", () => {})
    return pool
  }
}

/** Lets the database return the first row as JSON, and nothing of one that is too large: the driver would read every row into memory. */
const firstRowOf = (text: string): string =>
  `SELECT CASE WHEN octet_length(ork_json) <= ${MAX_ROW_BYTES} THEN ork_json END AS row, octet_length(ork_json) AS bytes
FROM (SELECT row_to_json(ork_row)::text AS ork_json FROM (
${withoutEnd(text)}
) ork_row LIMIT 1) ork_found`

/** Removes semicolons and spaces from the end, in linear time. */
const withoutEnd = (text: string): string => {
  let end = text.length
  while (end > 0 && /[\s;]/.test(text[end - 1]!)) end--
  return text.slice(0, end)
}

/** The third argument of a reviver, which the types of JSON.parse do not know yet. */
interface ReviverContext {
  source?: string
}

/** Numbers that JavaScript cannot represent become texts. */
const exactNumber = (_name: string, value: unknown, context?: ReviverContext): unknown =>
  typeof value === "number" && context?.source !== undefined && inexactNumber(context.source) !== null ? context.source : value

const parseRow = (found: { row: string | null; bytes: number } | undefined): JsonObject | null => {
  if (found === undefined) return null
  if (found.row !== null) return JSON.parse(found.row, exactNumber) as JsonObject
  throw new BrokenCondition(`the first row of the query has ${found.bytes} bytes; select fewer columns (at most 256 KiB)`)
}

/** Classifies an error. One of the database has a SQLSTATE; one of the network has a code such as ECONNREFUSED. */
const queryError = (error: unknown): unknown => {
  if (!(error instanceof pg.DatabaseError)) return error
  const { code = "", message } = error
  return TRANSIENT.includes(code.slice(0, 2)) ? error : new BrokenCondition(message, { cause: error })
}
