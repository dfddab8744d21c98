// One connection to Postgres. Statements that are sent without waiting travel together, and all fail if one of them does: see
// exchange.ts. What is sent while others are under way waits for no answer either (pg's pipeline mode); in a transaction it fails
// behind what failed, so awaiting in order gives the cause.

import pg from "pg"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Pipeline, type PipelineDeps } from "./pipeline.ts"

/** One SQL statement, prepared under its name on first use. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export const statement = (name: string, text: string): Statement => ({ name, text })

export type Value = string | number | boolean | null

/** What runs statements: a connection, inside or outside of a transaction. */
export interface SqlRunner {
  run<Row>(statement: Statement, values?: readonly Value[]): Promise<Row[]>
}

/** For work that is awaited later: its failure is heard there, and is not unhandled until then. */
export const pipelined = <T>(work: Promise<T>): Promise<T> => {
  work.catch(() => {})
  return work
}

export interface Target {
  url: string
  schema: string
}

const TYPES = { int8: 20, int8Array: 1016, timestamptz: 1184 } as const

/** `2026-11-15 02:03:04.5+00`, as the session's time zone UTC makes it, to `2026-11-15T02:03:04.500Z`. */
const instant = (text: string): string => {
  const [seconds = "", fraction = ""] = text.slice(0, -3).split(".")
  return `${seconds.replace(" ", "T")}.${fraction.padEnd(3, "0")}Z`
}

const types = new pg.TypeOverrides()
types.setTypeParser(TYPES.int8, Number)
types.setTypeParser(TYPES.int8Array, (text) => (text === "{}" ? [] : text.slice(1, -1).split(",").map(Number)))
types.setTypeParser(TYPES.timestamptz, instant)
const known: pg.CustomTypesConfig = types
const parserOf = (type: number) => known.getTypeParser(type, "text") as (text: string) => unknown

const CONNECT_TIMEOUT_MS = 10_000
/** No statement takes this long: the other end is gone without a word. */
const ANSWER_TIMEOUT_MS = 120_000
const quoted = (schema: string): string => `"${schema.replaceAll('"', '""')}"`

/**
 * Every statement of the store reads a bounded set by an index. A plan that was made while a table was small would scan it
 * later, when it is not: so scans of whole tables and joins that need them are off. Each statement is planned a few times per
 * connection only (`REPLAN`): planning a claim anew takes longer than the claim.
 */
export const SETTINGS = (schema: string): string =>
  `SET search_path TO ${quoted(schema)}; SET TimeZone TO 'UTC'; SET DateStyle TO ISO; SET jit TO off;
   SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off; SET enable_hashjoin TO off; SET enable_mergejoin TO off;
   SET enable_bitmapscan TO off; SET enable_memoize TO off;
   SET statement_timeout TO 0; SET idle_in_transaction_session_timeout TO '60s'`

/** Where a database is, for messages: no user, no password. */
export const hostOf = (url: string): string => {
  try {
    const { host, pathname } = new URL(url)
    return `${host}${pathname}`
  } catch {
    return "(address not readable)"
  }
}

/** Classes of SQLSTATE: connection, resources, operator intervention, system and internal errors. */
const GONE = /^(08|53|57P|58|XX)/

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Serialization failure or deadlock: nothing was written, and the same again may work. */
export const isCollision = (error: unknown): boolean => ["40001", "40P01"].includes(codeOf(error))

/** A text was not what it should be: no number. */
export const isUnreadable = (error: unknown): boolean => codeOf(error) === "22P02"

/** Another transaction has made a row of that key. */
export const isDuplicate = (error: unknown): boolean => codeOf(error) === "23505"

/** What went wrong with the database itself leaves as StoreUnavailable; a statement that it refused as it is. */
const asStoreError = (error: unknown, url: string): unknown => {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error)
  if (error instanceof pg.DatabaseError && !GONE.test(code)) return error
  return new StoreUnavailable(hostOf(url), error instanceof Error ? error.message || code : String(error), { cause: error })
}

const BEGIN = statement("begin", "BEGIN")
const COMMIT = statement("commit", "COMMIT")
const ROLLBACK = statement("rollback", "ROLLBACK")
const DISCARD = statement("discard_plans", "DISCARD PLANS")
/** Transactions of a connection before its plans are made anew, and by what factor that grows each time. */
const REPLAN = { first: 16, factor: 4 }

export class Connection implements SqlRunner {
  readonly #client: pg.Client
  readonly #url: string
  readonly #deps: PipelineDeps
  #exchange: Pipeline | undefined
  #transactions = 0
  #replanAt = REPLAN.first
  #broken = false

  private constructor(client: pg.Client, url: string) {
    this.#client = client
    this.#url = url
    this.#deps = { prepared: new Map(), parserOf, asError: (error) => asStoreError(error, url) }
    client.on("error", () => (this.#broken = true))
    client.on("end", () => (this.#broken = true))
  }

  static async open(target: Target, application: string): Promise<Connection> {
    const client = new pg.Client({
      connectionString: target.url,
      application_name: application,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      query_timeout: ANSWER_TIMEOUT_MS,
      pipeline: true,
    })
    const session = new Connection(client, target.url)
    try {
      await client.connect()
      await client.query(SETTINGS(target.schema))
    } catch (error) {
      await session.close()
      throw asStoreError(error, target.url)
    }
    return session
  }

  /** The connection broke: open another. */
  get broken(): boolean {
    return this.#broken
  }

  run<Row>(statement: Statement, values: readonly Value[] = []): Promise<Row[]> {
    return pipelined(this.#open().add<Row>(statement, values))
  }

  /**
   * BEGIN, which travels with the next statement. An index that is nearly empty is read as a whole as well as by a key: plans that
   * were made for such tables are not kept while these grow.
   */
  begin(): void {
    this.#count()
    void pipelined(this.#open().add(BEGIN, [], true))
  }

  /** A transaction of one statement. */
  alone<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    this.#count()
    return this.runAndSync<Row>(statement, values)
  }

  #count(): void {
    this.#transactions += 1
    if (this.#transactions < this.#replanAt) return
    this.#replanAt *= REPLAN.factor
    void this.runAndSync(DISCARD)
  }

  /** The last of what is sent together. */
  runAndSync<Row>(statement: Statement, values: readonly Value[] = []): Promise<Row[]> {
    const answer = pipelined(this.#open().add<Row>(statement, values, true))
    this.sync()
    return answer
  }

  commit(): Promise<unknown> {
    return this.runAndSync(COMMIT)
  }

  /** ROLLBACK, alone: behind a failure Postgres would skip it. */
  rollback(): Promise<unknown> {
    this.sync()
    return this.runAndSync(ROLLBACK)
  }

  /** What follows does not fail with what was sent so far. */
  sync(): void {
    if (this.#exchange?.open) this.#exchange.seal()
  }

  #open(): Pipeline {
    if (!this.#exchange?.open) this.#exchange = this.#client.query(new Pipeline(this.#deps))
    return this.#exchange
  }

  /** Statements without parameters, several in one text: migrations, LISTEN. */
  async script(text: string): Promise<void> {
    this.sync()
    try {
      await this.#client.query(text)
    } catch (error) {
      throw asStoreError(error, this.#url)
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
