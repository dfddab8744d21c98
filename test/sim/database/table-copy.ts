// Copies the tables of a Postgres schema into SQLite tables in memory, so that synchronous checks can read them. Each call of `update`
// copies the rows that were written since the last one.

import { DatabaseSync } from "node:sqlite"
import type pg from "pg"

type Value = string | number | null
type Row = Record<string, Value>

/** The tables that the checks read, with their keys and the indexes of the copy. */
const COPIED = {
  workflows: { key: ["id"], indexes: [] },
  runs: { key: ["seq"], indexes: ["id", "idempotency_key"] },
  tasks: { key: ["id"], indexes: ["run_seq, node, path", "parent_id"] },
  attempts: { key: ["task_id", "attempt"], indexes: [] },
  limits: { key: ["id"], indexes: [] },
  holders: { key: ["id"], indexes: [] },
  jobs: { key: ["task_id"], indexes: [] },
  schedules: { key: ["id"], indexes: [] },
  ticks: { key: ["workflow_id", "schedule", "tick_at"], indexes: [] },
  trigger_successes: { key: ["id"], indexes: [] },
  steps: { key: ["task_id", "name", "occurrence"], indexes: [] },
  ledger: { key: ["id"], indexes: [] },
} as const satisfies Record<string, { key: string[]; indexes: string[] }>

type Table = keyof typeof COPIED
const TABLES = Object.keys(COPIED) as Table[]

export class TableCopy {
  readonly copy = new DatabaseSync(":memory:")
  readonly #client: pg.Client
  /** Every transaction before this one was copied; null before the first update. */
  #copiedUpTo: number | null = null

  /** `client` must read values by `parserOf`, with the time zone UTC. */
  constructor(client: pg.Client) {
    this.#client = client
  }

  async update(): Promise<void> {
    const { written, counts, upTo } = await this.#read(this.#copiedUpTo ?? 0)
    for (const [i, table] of TABLES.entries()) {
      const result = written[i]!
      if (this.#copiedUpTo === null) this.#create(table, result)
      this.#write(table, result)
      if (this.#count(table) !== counts[i]) await this.#removeDeleted(table)
    }
    this.#copiedUpTo = upTo
  }

  /** Reads, in one snapshot, the rows of transactions from `since` on, the number of rows of each table and the next `since`. */
  async #read(since: number): Promise<{ written: pg.QueryResult<Row>[]; counts: number[]; upTo: number }> {
    const rows = TABLES.map((table) => `SELECT * FROM ${table} WHERE xmin::text::bigint >= ${since};`)
    const totals = TABLES.map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`)
    const sql = `BEGIN ISOLATION LEVEL REPEATABLE READ; ${rows.join(" ")}
      SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS up_to, ${totals.join(", ")}; COMMIT`
    const results = (await this.#client.query(sql)) as unknown as pg.QueryResult<Row>[]
    const summary = results.at(-2)!.rows[0]!
    return {
      written: results.slice(1, -2),
      counts: TABLES.map((table) => summary[table] as number),
      upTo: summary["up_to"] as number,
    }
  }

  #create(table: Table, { fields }: pg.QueryResult<Row>): void {
    const { key, indexes } = COPIED[table]
    const columns = fields.map(({ name }) => `"${name}"`)
    this.copy.exec(`CREATE TABLE ${table} (${columns.join(", ")}, PRIMARY KEY (${key.join(", ")}))`)
    for (const [i, index] of indexes.entries()) this.copy.exec(`CREATE INDEX ${table}_${i} ON ${table} (${index})`)
  }

  #write(table: Table, { fields, rows }: pg.QueryResult<Row>): void {
    if (rows.length === 0) return
    const columns = fields.map(({ name }) => `"${name}"`).join(", ")
    const insert = this.copy.prepare(
      `INSERT OR REPLACE INTO ${table} (${columns}) VALUES (${fields.map(() => "?").join(", ")})`,
    )
    for (const row of rows) insert.run(...fields.map(({ name }) => row[name]!))
  }

  #count(table: Table): number {
    return this.copy.prepare(`SELECT count(*) AS n FROM ${table}`).get()!["n"] as number
  }

  async #removeDeleted(table: Table): Promise<void> {
    const { key } = COPIED[table]
    const keys = `SELECT ${key.join(", ")} FROM ${table}`
    const textOf = (row: Row): string => JSON.stringify(key.map((column) => row[column]))
    const kept = new Set((await this.#client.query<Row>(keys)).rows.map(textOf))
    const remove = this.copy.prepare(`DELETE FROM ${table} WHERE ${key.map((column) => `${column} = ?`).join(" AND ")}`)
    for (const row of this.copy.prepare(keys).all() as Row[]) {
      if (!kept.has(textOf(row))) remove.run(...key.map((column) => row[column]!))
    }
  }
}

// -- values in the form that the SQLite store uses -----------------------------------------------------------------------------------

const TYPES = { bool: 16, int8: 20, int2: 21, int4: 23, int8Array: 1016, timestamptz: 1184 } as const

/** `2026-01-01 00:00:00.5+00` → `2026-01-01T00:00:00.500Z` */
const toIso = (text: string): string => new Date(`${text.replace(" ", "T")}:00`).toISOString()

export const parserOf = (type: number): ((text: string) => Value) => {
  switch (type) {
    case TYPES.bool:
      return (text) => (text === "t" ? 1 : 0)
    case TYPES.int2:
    case TYPES.int4:
    case TYPES.int8:
      return Number
    case TYPES.int8Array:
      return (text) => (text === "{}" ? null : `[${text.slice(1, -1)}]`)
    case TYPES.timestamptz:
      return toIso
    default:
      return (text) => text
  }
}
