// A real Postgres: one database for all seeds, emptied for each. The checks read a copy of its tables (table-copy.ts).
//
// Wake-ups (NOTIFY) arrive in real time. `refresh` returns only when all stores have received those of the call, so that virtual
// time does not depend on how fast they travel.

import { setImmediate as immediate, setTimeout as delay } from "node:timers/promises"
import pg from "pg"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { Store } from "../../../src/store/contract/store.ts"
import { openPostgres } from "../../../src/store/postgres/postgres.ts"
import { ask, createDatabase } from "../../support/components/postgres.ts"
import { enforceRules } from "../../support/components/postgres-rules.ts"
import { VirtualClock } from "../clock.ts"
import { Rng } from "../rng.ts"
import type { OpenOptions, SimDatabase, SimDatabases } from "./database.ts"
import { TableReader } from "./table-reader.ts"
import { parserOf, TableCopy } from "./table-copy.ts"

const SCHEMA = "ork"
const LEDGER = `${SCHEMA}.ledger`
const CHANNEL = `ork_${SCHEMA}`
/** Sent by the simulation itself, to see that a new store listens. */
const PROBE = "probe"
const DELIVERY_TIMEOUT_MS = 30_000

export const postgresDatabases = async (): Promise<SimDatabases> => {
  const database = await createDatabase()
  const { url } = database
  // The simulation crashes engines, never the server: commits need not wait for the disk.
  await ask(url, `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET synchronous_commit TO off`)
  const store = await openPostgres({ url, schema: SCHEMA, clock: new VirtualClock(), random: new Rng("template") })
  await store.migrate()
  await store.close()
  await enforceRules(url, SCHEMA)
  await ask(url, `CREATE TABLE ${LEDGER} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, entry text NOT NULL)`)
  const client = new pg.Client({ connectionString: url, types: { getTypeParser: parserOf } })
  await client.connect()
  await client.query(`SET search_path TO "${SCHEMA}"; SET TimeZone TO 'UTC'; SET DateStyle TO ISO; LISTEN "${CHANNEL}"`)
  const truncate = await truncation(client)
  const listeners = new Set<string>()
  return {
    create: async () => {
      await client.query(truncate)
      const made = new PostgresDatabase(url, client, listeners)
      await made.update()
      return made
    },
    close: async () => {
      await client.end()
      await database.drop()
    },
  }
}

const truncation = async (client: pg.Client): Promise<string> => {
  const { rows } = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND tablename <> 'schema_version'",
    [SCHEMA],
  )
  return `TRUNCATE ${rows.map(({ name }) => `"${name}"`).join(", ")} RESTART IDENTITY`
}

interface OpenStore {
  store: ServerStore
  /** The name under which it sends wake-ups; null until it has sent one. */
  sender: string | null
  /** Wake-ups of others: received, and to be received. */
  received: number
  expected: number
}

class PostgresDatabase implements SimDatabase {
  readonly leasesOnly = true
  readonly claimsNewHooks = false
  readonly ledger = LEDGER
  readonly #url: string
  readonly #client: pg.Client
  readonly #tables: TableCopy
  readonly tables: TableReader
  readonly #open: OpenStore[] = []
  /** Server processes of all connections that stores listened on so far: one that has just been closed may still be there. */
  readonly #listeners: Set<string>
  /** Senders of the wake-ups since the last `refresh`. */
  #sent: string[] = []
  #wakes = 0
  #opening: Promise<unknown> = Promise.resolve()

  constructor(url: string, client: pg.Client, listeners: Set<string>) {
    this.#url = url
    this.#client = client
    this.#listeners = listeners
    this.#tables = new TableCopy(client)
    this.tables = new TableReader(this.#tables.copy)
    client.on("notification", this.#notified)
  }

  readonly #notified = ({ payload }: pg.Notification): void => {
    if (payload !== undefined && payload !== PROBE) this.#sent.push(payload)
  }

  async update(): Promise<void> {
    await this.#tables.update()
    this.tables.refresh()
  }

  /** Opens one store after the other: each waits for a probe of its own. */
  openStore(options: OpenOptions): Promise<ServerStore> {
    const opening = this.#opening.then(() => this.#openStore(options))
    this.#opening = opening.catch(() => undefined)
    return opening
  }

  async #openStore({ clock, random }: OpenOptions): Promise<ServerStore> {
    const store = await openPostgres({ url: this.#url, schema: SCHEMA, clock, random })
    const open: OpenStore = { store, sender: null, received: 0, expected: 0 }
    store.onWake(() => (open.received += 1))
    this.#open.push(open)
    this.#listeners.add(await this.#newListener())
    for (const each of this.#open) each.expected += 1
    await this.#client.query("SELECT pg_notify($1, $2)", [CHANNEL, PROBE])
    await this.#untilReceived()
    const { close } = store
    return Object.assign(store, {
      close: async () => {
        this.#open.splice(this.#open.indexOf(open), 1)
        await close()
        await this.update()
        this.#sent = []
      },
    })
  }

  /** A listening client gets its notifications before the answer to its next query. */
  async refresh(caller: Store): Promise<string | null> {
    await this.update()
    const sent = this.#sent
    this.#sent = []
    for (const sender of sent) {
      const own = this.#open.find(({ store }) => store === caller)
      if (own !== undefined) own.sender ??= sender
      for (const each of this.#open) if (each.sender !== sender) each.expected += 1
    }
    await this.#untilReceived()
    return sent.length === 0 ? null : String((this.#wakes += sent.length))
  }

  async close(): Promise<void> {
    this.#client.off("notification", this.#notified)
    this.#tables.copy.close()
  }

  /**
   * Waits until the store that was just opened listens; returns the server process of its connection, with its start time, since
   * numbers of processes come again.
   */
  async #newListener(): Promise<string> {
    const sql = `SELECT concat(pid, ' ', backend_start) AS listener FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'ork listen' AND state = 'idle' AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')`
    let found: string | undefined
    await waitUntil("a new store listens", async () => {
      const { rows } = await this.#client.query<{ listener: string }>(sql)
      found = rows.find(({ listener }) => !this.#listeners.has(listener))?.listener
      return found !== undefined
    })
    return found!
  }

  #untilReceived(): Promise<void> {
    return waitUntil("all wake-ups have arrived", async () => {
      await immediate()
      return this.#open.every(({ received, expected }) => received >= expected)
    })
  }
}

const waitUntil = async (what: string, done: () => Promise<boolean>): Promise<void> => {
  const giveUp = Date.now() + DELIVERY_TIMEOUT_MS
  for (let i = 0; !(await done()); i++) {
    if (Date.now() > giveUp) throw new Error(`the simulation waited in vain until ${what}`)
    if (i > 20) await delay(1)
  }
}
