import pg from "pg"
import { afterAll, beforeAll } from "vitest"
import { createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { enforceRules } from "../../../test/support/components/postgres-rules.ts"
import { serverSuite, storeSuite, wakeSuite } from "../conformance/suite.ts"
import type { Open } from "../conformance/world.ts"
import type { ServerStore } from "../contract/server-store.ts"
import { openPostgres } from "./postgres.ts"

let database: TestDatabase
let probe: pg.Client
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
  probe = new pg.Client({ connectionString: database.url })
  probe.on("notification", countNotification)
  await probe.connect()
})
// The database goes with the server of the test run: to drop hundreds of schemas takes long on a busy disk.
afterAll(() => probe.end())

const CAUGHT_UP = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 AS caught_up"

/** Other tests share the server: their open transactions hold back what was committed before. */
const caughtUp = async (): Promise<void> => {
  const { rows } = await probe.query<{ xid: string }>("SELECT pg_current_xact_id()::text AS xid")
  for (;;) {
    const { rows: found } = await probe.query<{ caught_up: boolean }>(CAUGHT_UP, [rows[0]!.xid])
    if (found[0]!.caught_up) return
  }
}

/** Payload of a notification that a test sends to itself. The earlier ones of its channel have arrived before it. */
const MARKER = "marker"

/** Notifications of each channel that `probe` listens to. */
const heard = new Map<string, { wakes: number; marked: () => void }>()

const countNotification = ({ channel, payload }: pg.Notification): void => {
  const counts = heard.get(channel)!
  if (payload === MARKER) counts.marked()
  else counts.wakes++
}

/** Returns how often the stores of a schema have woken others since the first call. */
const wakesOf = async (schema: string): Promise<number> => {
  const channel = `ork_${schema}`
  const { promise, resolve } = Promise.withResolvers<void>()
  const counts = { wakes: heard.get(channel)?.wakes ?? 0, marked: resolve }
  heard.set(channel, counts)
  await probe.query(`LISTEN "${channel}"`)
  await probe.query("SELECT pg_notify($1, $2)", [channel, MARKER])
  await promise
  return counts.wakes
}

/** Schemas that no test uses. To empty one is much faster than to migrate a new one. */
const unused: string[] = []

/** Empties the tables of a schema, except its version, and restarts its sequences. */
const empty = async (schema: string): Promise<void> => {
  await probe.query(`DO $$ DECLARE each record; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename <> 'schema_version' LOOP
      EXECUTE format('DELETE FROM %I.%I', '${schema}', each.tablename);
    END LOOP;
    FOR each IN SELECT sequencename FROM pg_sequences WHERE schemaname = '${schema}' LOOP
      PERFORM setval(format('%I.%I', '${schema}', each.sequencename)::regclass, 1, false);
    END LOOP;
  END $$`)
}

const open: Open<ServerStore> = async ({ clock, random }) => {
  const known = unused.pop()
  const schema = known ?? `test ${++schemas}`
  const store = await openPostgres({ url: database.url, clock, random, schema })
  if (known === undefined) {
    await store.migrate()
    await enforceRules(database.url, schema)
  }
  store.onWake(() => {})
  const readEvents: ServerStore["readEvents"] = async (query) => {
    await caughtUp()
    return store.readEvents(query)
  }
  const close = async (): Promise<void> => {
    await store.close()
    await empty(schema)
    unused.push(schema)
  }
  return { store: { ...store, readEvents }, close, wakes: () => wakesOf(schema) }
}

storeSuite("Postgres", open)
serverSuite("Postgres", open)
wakeSuite("Postgres", open)
