// One connection to Postgres. Statements that are sent before the caller awaits one of them share a round trip and fail together
// (pipeline.ts). Statements sent later do not wait for earlier replies either (pg's pipeline mode); inside a transaction they fail
// after the one that failed, so awaiting in order yields the cause.

import type { Socket } from "node:net"
import pg from "pg"
import { InvalidValue, StoreUnavailable } from "../../contract/errors.ts"
import { literal } from "./literal.ts"
import { PlanAge } from "./plan-age.ts"
import { Pipeline, type PipelineDeps } from "./pipeline.ts"
import { bind, type Params, pipelined, type SqlRunner, type Statement, statement, type Value } from "./statement.ts"

export interface Target {
  url: string
  schema: string
  /** Milliseconds without a reply after which a connection is checked; SILENCE_MS when not given. */
  silenceMs?: number
}

/** Short enough to renew a lease on a new connection before it expires. */
export const SILENCE_MS = 3_000

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

const CONNECT_TIMEOUT_MS = 4_000
const CLOSE_TIMEOUT_MS = 1_000
/** Longer than any statement takes. A dead connection is found earlier (`#check`). */
const REPLY_TIMEOUT_MS = 120_000

/** Returns the name of a schema for SQL. */
export const quoted = (schema: string): string => `"${schema.replaceAll('"', '""')}"`

type Settings = Readonly<Record<string, string>>

/** Settings of every connection. */
export const CONNECTION_SETTINGS = (schema: string): Settings => ({
  search_path: quoted(schema),
  TimeZone: "UTC",
  DateStyle: "ISO",
  jit: "off",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "60s",
})

/**
 * Planner settings of connections that write. Their statements read bounded sets by an index, under generic plans that stay for the
 * life of the connection: planning a claim takes longer than the claim. A plan made while a table is small would scan all of it
 * later, so scans of whole tables and the joins that need them are off. Reads of the API plan with the defaults of Postgres.
 */
export const INDEXED_PLANS: Settings = {
  plan_cache_mode: "force_generic_plan",
  enable_seqscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_bitmapscan: "off",
  enable_memoize: "off",
}

/** Returns the query that applies settings to the session, or (`local`) to its transaction. */
export const applying = (settings: Settings, { local }: { local: boolean }): string =>
  `SELECT ${Object.entries(settings)
    .map(([name, value]) => `set_config('${name}', ${literal(value)}, ${local})`)
    .join(", ")}`

export interface ConnectionOptions {
  /** `application_name`, as pg_stat_activity shows it. */
  application: string
  /** Settings beside CONNECTION_SETTINGS. */
  settings?: Settings
}

/** Returns the host and database of a URL, for messages: no user, no password. */
export const hostOf = (url: string): string => {
  try {
    const { host, pathname } = new URL(url)
    return `${host}${pathname}`
  } catch {
    return "(address not readable)"
  }
}

/**
 * SQLSTATE classes: connection, read-only server, authorization, missing database, missing permission, resources, locks, operator
 * intervention, system and internal errors.
 */
const UNAVAILABLE = /^(08|25006|28|3D|42501|53|55|57|58|XX)/

/** What a user does about an error that another setting or database avoids, by SQLSTATE. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [/^28/, "; check the user and the password in ORK_DATABASE_URL, or create the role"],
  [/^3D/, "; create it (createdb), or correct its name in ORK_DATABASE_URL"],
  [/^42501/, "; grant it to the user of ORK_DATABASE_URL"],
  [/^53100/, "; free some space on the disk of the database"],
]

export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Returns whether a serialization failure or deadlock happened: nothing was written, and a retry may succeed. */
export const isCollision = (error: unknown): boolean => ["40001", "40P01"].includes(codeOf(error))

/** Returns whether a lock was not granted within `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean =>
  codeOf(error instanceof StoreUnavailable ? error.cause : error) === "55P03"

/** Returns whether another transaction inserted the same key. */
export const isDuplicate = (error: unknown): boolean => codeOf(error) === "23505"

/** SQLSTATE classes: cardinality, data, integrity constraint, program limit. */
const INVALID_VALUE = /^(21|22|23|54)/

/** Turns errors about the content of a value into InvalidValue. A value that is out of range for JavaScript never reaches Postgres. */
export const asInvalidValue = (error: unknown): unknown =>
  error instanceof RangeError || (error instanceof pg.DatabaseError && INVALID_VALUE.test(codeOf(error)))
    ? new InvalidValue(error.message, { cause: error })
    : error

/** Turns failures of the database into StoreUnavailable; errors of a statement stay as they are. */
export const toStoreError = (error: unknown, url: string): unknown => {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error)
  if (error instanceof pg.DatabaseError && !UNAVAILABLE.test(code)) return error
  const reason = error instanceof Error ? error.message || code : String(error)
  const hint = HINTS.find(([codes]) => codes.test(code))?.[1] ?? ""
  return new StoreUnavailable(hostOf(url), `${reason}${hint}`, { cause: error })
}

const BEGIN = statement("begin", "BEGIN")
const COMMIT = statement("commit", "COMMIT")
const ROLLBACK = statement("rollback", "ROLLBACK")
const DISCARD_PLANS = statement("discard_plans", "DISCARD PLANS")
/**
 * Asks on another connection whether a backend works on a statement. False: it waits for one, or is gone, or Postgres cannot be
 * reached. A server that has no connection left cannot be asked: true.
 */
const isWorking = async (url: string, pid: number, timeoutMs: number): Promise<boolean> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs })
  client.on("error", () => {})
  try {
    await client.connect()
    const find = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    const { rows } = await client.query<{ state: string | null }>(find, [pid])
    // With track_activities = off, or without the right to see it, the state is not known.
    return rows[0] !== undefined && !rows[0].state?.startsWith("idle")
  } catch (error) {
    return error instanceof pg.DatabaseError
  } finally {
    client.end().catch(() => {})
  }
}

export class Connection implements SqlRunner {
  readonly #client: pg.Client
  readonly #url: string
  readonly #silenceMs: number
  readonly #deps: PipelineDeps
  #pipeline: Pipeline | undefined
  readonly planAge = new PlanAge()
  readonly openedAt = performance.now()
  #broken = false
  /** Pipelines without a reply. */
  #unanswered = 0
  #watch: NodeJS.Timeout | undefined
  #pid = 0
  /** Begins a transaction with the settings of the connection; null: its session has them. */
  #localSettings: Statement | null = null

  private constructor(client: pg.Client, target: Target) {
    const { url } = target
    this.#client = client
    this.#url = url
    this.#silenceMs = target.silenceMs ?? SILENCE_MS
    const ended = (): void => void (this.#unanswered -= 1)
    this.#deps = { prepared: new Map(), parserOf, toError: (error) => toStoreError(error, url), ended }
    client.on("error", () => (this.#broken = true))
    client.on("end", () => (this.#broken = true))
  }

  static async open(target: Target, { application, settings = {} }: ConnectionOptions): Promise<Connection> {
    const client = new pg.Client({
      connectionString: target.url,
      application_name: application,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      query_timeout: REPLY_TIMEOUT_MS,
      pipeline: true,
    })
    const connection = new Connection(client, target)
    try {
      await client.connect()
      const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")
      connection.#pid = rows[0]!.pid
      const all = { ...CONNECTION_SETTINGS(target.schema), ...settings }
      // A pooler gives the client a number of its own.
      const isPooled = (client as pg.Client & { processID: number }).processID !== connection.#pid
      if (isPooled) connection.#localSettings = { name: "", text: applying(all, { local: true }), params: [] }
      else await client.query(applying(all, { local: false }))
    } catch (error) {
      await connection.close()
      throw toStoreError(error, target.url)
    }
    return connection
  }

  /**
   * Whether a pooler such as PgBouncer is in between. It may give each transaction another session, and its sessions serve others too: such
   * a connection keeps nothing in its session (settings, prepared statements, LISTEN), and only transactions have its settings.
   */
  get pooled(): boolean {
    return this.#localSettings !== null
  }

  /** Whether the connection is lost. */
  get broken(): boolean {
    return this.#broken
  }

  run<Row>(statement: Statement, params: Params | readonly Value[] = []): Promise<Row[]> {
    return pipelined(this.#openPipeline().add<Row>(this.#named(statement), bind(statement, params)))
  }

  /** Sends the statement and asks for all replies so far; later statements do not fail with these. */
  runAndSync<Row>(statement: Statement, params: Params | readonly Value[] = []): Promise<Row[]> {
    const rows = pipelined(this.#openPipeline().add<Row>(this.#named(statement), bind(statement, params), true))
    this.sync()
    return rows
  }

  /** Sends BEGIN together with the next statement. */
  begin(): void {
    if (this.planAge.countTransaction() && !this.pooled) void this.runAndSync(DISCARD_PLANS)
    void pipelined(this.#openPipeline().add(this.#named(BEGIN), [], true))
    if (this.#localSettings !== null) void pipelined(this.#openPipeline().add(this.#localSettings, [], true))
  }

  /** Begins a transaction of scripts; `begin`: with its modes, and its first statements. */
  async beginScript(begin = "BEGIN"): Promise<void> {
    await this.script(this.#localSettings === null ? begin : `${begin}; ${this.#localSettings.text}`)
  }

  /** Returns the statement without a name, under which a session of a pooler would keep it. */
  #named(statement: Statement): Statement {
    return this.pooled ? { ...statement, name: "" } : statement
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
    if (!this.#pipeline?.open) {
      this.#pipeline = this.#client.query(new Pipeline(this.#deps))
      this.#unanswered += 1
      this.#watchReplies()
    }
    return this.#pipeline
  }

  /** Checks the connection when no byte arrives for a while although a reply is due. */
  #watchReplies(): void {
    // The number of the session that a pooler uses is not known.
    if (this.#watch !== undefined || this.pooled) return
    const read = this.#socket.bytesRead
    this.#watch = setTimeout(() => void this.#check(read), this.#silenceMs).unref()
  }

  get #socket(): Socket {
    return this.#client.connection.stream as Socket
  }

  /** Checks a silent connection. `read`: bytes that had arrived when the watch began. */
  async #check(read: number): Promise<void> {
    const socket = this.#socket
    const isSilent = (): boolean => this.#unanswered > 0 && !this.#broken && socket.bytesRead === read
    if (isSilent() && !(await isWorking(this.#url, this.#pid, this.#silenceMs)) && isSilent())
      socket.destroy(new Error(`no reply for ${this.#silenceMs / 1000} s: the connection is dead`))
    this.#watch = undefined
    if (this.#unanswered > 0 && !this.#broken) this.#watchReplies()
  }

  /** Closes the socket without waiting for the other side. */
  destroy(): void {
    this.#broken = true
    this.#socket.destroy()
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

  /** Ends the session; does not wait for a peer that does not react. */
  async close(): Promise<void> {
    this.#broken = true
    clearTimeout(this.#watch)
    const giveUp = setTimeout(() => this.#socket.destroy(), CLOSE_TIMEOUT_MS)
    await this.#client.end().catch(() => {})
    clearTimeout(giveUp)
  }
}
