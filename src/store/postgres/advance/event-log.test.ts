import pg from "pg"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { createDatabase, type TestDatabase } from "../../../../test/support/postgres.ts"
import { newRunId } from "../../../core/model/ids.ts"
import { workflow } from "../../../core/testing.ts"
import { type Open, setup } from "../../conformance/world.ts"
import { encodeEvents } from "../../shared/event-codec.ts"
import type { LoggedEvent } from "../../contract/event-log.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const SCHEMA = "events"

const open: Open<ServerStore> = async ({ clock, random }) => {
  const store = await openPostgres({ url: database.url, clock, random, schema: SCHEMA })
  await store.migrate()
  return { store, close: () => store.close() }
}

const connect = async (): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Reads until that many events are visible: open transactions of other tests on the server delay them. */
const read = async (store: ServerStore, after: string, count: number): Promise<LoggedEvent[]> => {
  for (;;) {
    const { events } = await store.readEvents({ after, limit: 9 })
    if (events.length >= count) return events
  }
}

const APPEND = `INSERT INTO ${SCHEMA}.events (at, size, runs, events) VALUES (now(), 1, $1, $2)`

it("readers do not miss a batch that is committed after younger ones", async () => {
  const world = await setup(open)
  const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
  const slow = await connect()
  await slow.query("BEGIN")
  await slow.query("SELECT pg_current_xact_id()")
  const run = await world.start(workflow({ a: {} }))
  expect(await world.store.readEvents({ after: cursor, limit: 9 })).toEqual({ events: [], cursor, gap: false })
  const late = newRunId(world.clock.now(), world.random.hex128())
  const { runs, text } = encodeEvents([{ type: "run", runId: late, status: "running", at: run.createdAt }])
  await slow.query(APPEND, [JSON.stringify(runs), text])
  await slow.query("COMMIT")
  expect((await read(world.store, cursor, 2)).map(({ runId }) => runId)).toEqual([late, run.id])
})

it("a cursor from before a restore of the database is a gap, and batches from before it are trimmed", async () => {
  const world = await setup(open, 2)
  const client = await connect()
  await client.query(`INSERT INTO ${SCHEMA}.events VALUES (900000000000000, now(), 1, '[]', '{}')`)
  const { events, gap, cursor } = await world.store.readEvents({ after: "900000000000000.0", limit: 9 })
  expect({ events, gap }).toEqual({ events: [], gap: true })
  await world.store.trimEvents({ olderThanMs: 0, limit: 9 })
  const { rows } = await client.query(`SELECT batch FROM ${SCHEMA}.events WHERE batch >= 900000000000000`)
  expect(rows).toEqual([])
  const run = await world.start(workflow({ a: {} }))
  expect((await read(world.store, cursor, 1)).at(-1)).toMatchObject({ runId: run.id })
})
