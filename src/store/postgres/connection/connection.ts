// One connection to Postgres. Statements that are sent before the caller awaits one of them share a round trip and fail together
// (pipeline.ts). Statements sent later do not wait for earlier replies either (pg's pipeline mode); inside a transaction they fail
// after the one that failed, so awaiting in order yields the cause.

import pg from "pg"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Pipeline, type PipelineDeps } from "./pipeline.ts"
import { bind, type Params, pipelined, type SqlRunner, type Statement, statement, type Value } from "./statement.ts"

export interface Target {
  url: string
  schema: string
}

const TYPES = { int8: 20, int8Array: 1016, timestamptz: 1184 } as const

/** Converts `2026-11-15 02:03:04.5+00` (the connection's time zone is UTC) to `2026-11-15T02:03:04.500Z`. */
const instant = (text: string): string => {
  const [seconds = "", fraction = ""] = text.slice(0, -3).split(".")
  return `${seconds.replace(" ", "T")}.${fraction.padEnd(3, "0")}Z`
}

const types = new pg.TypeOverrides()
types.setTypeParser(TYPES.int8, Number)
types.setTypeParser(TYPES.int8Array, (text) => (text === "{}" ? [] : text.slice(1, -1).split(",").map(Number)))
types.setTypeParser(TYPES.timestamptz, instant)
const customTypes: pg.CustomTypesConfig = types
const parserOf = (type: number) => customTypes.getTypeParser(type, "text") as (text: string) => unknown

const CONNECT_TIMEOUT_MS = 10_000
/** Longer than any statement takes: the peer is gone without closing the connection. */
const REPLY_TIMEOUT_MS = 120_000

const quoted = (schema: string): string => `"${schema.replaceAll('"', '""')}"`

/** Settings of every connection. */
export const CONNECTION_SETTINGS = (schema: string): string =>
  `SET search_path TO ${quoted(schema)}; SET TimeZone TO 'UTC'; SET DateStyle TO ISO; SET jit TO off;
   SET statement_timeout TO 0; SET idle_in_transaction_session_timeout TO '60s';`

/**
 * Planner settings of connections that write. Their statements read bounded sets by an index, under generic plans that stay for the
 * life of the connection: planning a claim takes longer than the claim. A plan made while a table is small would scan all of it
 * later, so scans of whole tables and the joins that need them are off. Reads of the API plan with the defaults of Postgres.
 */
export const INDEXED_PLANS = `SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off; SET enable_hashjoin TO off;
   SET enable_mergejoin TO off; SET enable_bitmapscan TO off; SET enable_memoize TO off;`

export interface ConnectionOptions {
  /** `application_name`, as pg_stat_activity shows it. */
  application: string
  /** SQL that is run when the connection opens, after CONNECTION_SETTINGS. */
  settings?: string
}

/** Host and database of a URL, for messages: no user, no password. */
export const hostOf = (url: string): string => {
  try {
    const { host, pathname } = new URL(url)
    return `${host}${pathname}`
  } catch {
    return "(address not readable)"
  }
}

/** SQLSTATE classes: connection, read-only server, resources, locks, operator intervention, system and internal errors. */
const UNAVAILABLE = /^(08|25006|53|55|57|58|XX)/

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Serialization failure or deadlock: nothing was written, and a retry may succeed. */
export const isCollision = (error: unknown): boolean => ["40001", "40P01"].includes(codeOf(error))

/** Unique violation: another transaction inserted the same key. */
export const isDuplicate = (error: unknown): boolean => codeOf(error) === "23505"

/** Turns failures of the database into StoreUnavailable; errors of a statement stay as they are. */
const toStoreError = (error: unknown, url: string): unknown => {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error)
  if (error instanceof pg.DatabaseError && !UNAVAILABLE.test(code)) return error
  return new StoreUnavailable(hostOf(url), error instanceof Error ? error.message || code : String(error), { cause: error })
}

const BEGIN = statement("begin", "BEGIN")
const COMMIT = statement("commit", "COMMIT")
const ROLLBACK = statement("rollback", "ROLLBACK")
const DISCARD_PLANS = statement("discard_plans", "DISCARD PLANS")
/** Number of transactions after which a connection plans its statements anew, and the factor by which that number grows. */
const REPLAN = { first: 16, factor: 4 }

export class Connection implements SqlRunner {
  readonly #client: pg.Client
  readonly #url: string
  readonly #deps: PipelineDeps
  #pipeline: Pipeline | undefined
  #transactions = 0
  #replanAt = REPLAN.first
  #broken = false

  private constructor(client: pg.Client, url: string) {
    this.#client = client
    this.#url = url
    this.#deps = { prepared: new Map(), parserOf, toError: (error) => toStoreError(error, url) }
    client.on("error", () => (this.#broken = true))
    client.on("end", () => (this.#broken = true))
  }

  static async open(target: Target, { application, settings = "" }: ConnectionOptions): Promise<Connection> {
    const client = new pg.Client({
      connectionString: target.url,
      application_name: application,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      query_timeout: REPLY_TIMEOUT_MS,
      pipeline: true,
    })
    const connection = new Connection(client, target.url)
    try {
      await client.connect()
      await client.query(CONNECTION_SETTINGS(target.schema) + settings)
    } catch (error) {
      await connection.close()
      throw toStoreError(error, target.url)
    }
    return connection
  }

  /** Whether the connection is lost. */
  get broken(): boolean {
    return this.#broken
  }

  run<Row>(statement: Statement, params: Params | readonly Value[] = []): Promise<Row[]> {
    return pipelined(this.#openPipeline().add<Row>(statement, bind(statement, params)))
  }

  /** Sends the statement and asks for all replies so far; later statements do not fail with these. */
  runAndSync<Row>(statement: Statement, params: Params | readonly Value[] = []): Promise<Row[]> {
    const rows = pipelined(this.#openPipeline().add<Row>(statement, bind(statement, params), true))
    this.sync()
    return rows
  }

  /** Sends BEGIN together with the next statement. */
  begin(): void {
    this.#countTransaction()
    void pipelined(this.#openPipeline().add(BEGIN, [], true))
  }

  /** Discards plans that were made while the tables were nearly empty, when a scan of a whole index looked as good as a lookup. */
  #countTransaction(): void {
    this.#transactions += 1
    if (this.#transactions < this.#replanAt) return
    this.#replanAt *= REPLAN.factor
    void this.runAndSync(DISCARD_PLANS)
  }

  commit(): Promise<unknown> {
    return this.runAndSync(COMMIT)
  }

  /** Sends ROLLBACK in a pipeline of its own: Postgres would skip it behind a failed statement. */
  rollback(): Promise<unknown> {
    this.sync()
    return this.runAndSync(ROLLBACK)
  }

  /** Ends the current pipeline: later statements do not fail with those sent so far. */
  sync(): void {
    if (this.#pipeline?.open) this.#pipeline.seal()
  }

  #openPipeline(): Pipeline {
    if (!this.#pipeline?.open) this.#pipeline = this.#client.query(new Pipeline(this.#deps))
    return this.#pipeline
  }

  /** Runs several statements without parameters from one text: migrations, LISTEN. */
  async script(text: string): Promise<void> {
    this.sync()
    try {
      await this.#client.query(text)
    } catch (error) {
      throw toStoreError(error, this.#url)
    }
  }

  onNotification(listener: (payload: string) => void): void {
    this.#client.on("notification", ({ payload }) => listener(payload ?? ""))
  }

  onBroken(listener: () => void): void {
    this.#client.once("end", listener)
  }

  async close(): Promise<void> {
    this.#broken = true
    await this.#client.end().catch(() => {})
  }
}
