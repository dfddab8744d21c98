import pg from "pg"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { iso } from "../../../core/model/ports.ts"
import { newRunId } from "../../../core/model/ids.ts"
import { workflow } from "../../../core/testing.ts"
import { byKind, names, type Open, seededRandom, setup, WORK } from "../../conformance/world.ts"
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
    const { events } = await store.readEvents({ after, limit: 99 })
    if (events.length >= count) return events
  }
}

/** Resolves when a transaction of the database waits for a lock. */
const waitingForLock = async (): Promise<void> => {
  const WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
  while ((await ask(database.url, WAITING)).length === 0);
}

const APPEND = `INSERT INTO ${SCHEMA}.events (at, size, runs, events) VALUES (now(), 1, $1, $2)`

it("readers do not miss a batch that is committed after younger ones", async () => {
  const world = await setup(open)
  const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
  const slow = await connect()
  await slow.query("BEGIN")
  const late = newRunId(world.clock.now(), world.random.hex128())
  const { runs, text } = encodeEvents([{ type: "run", runId: late, status: "running", at: iso(world.clock.now()) }])
  await slow.query(APPEND, [JSON.stringify(runs), text])
  const run = await world.start(workflow({ a: {} }))
  expect(await world.store.readEvents({ after: cursor, limit: 9 })).toEqual({ events: [], cursor, gap: false })
  await slow.query("COMMIT")
  expect((await read(world.store, cursor, 2)).map(({ runId }) => runId)).toEqual([late, run.id])
})

it("a task is dispatched after the end of its upstream, also by a server whose transaction is older than that end", async () => {
  const world = await setup(open, 3)
  const other = await open({ clock: world.clock, random: seededRandom(4) })
  onTestFinished(() => other.close())
  const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
  const chain = workflow({ a: {}, b: { after: ["a"] } })
  await world.start(chain)
  const blocked = await world.start(chain)
  const slowChanges = (await world.claim()).map((claim) => world.ended(claim))
  const run = await world.start(workflow({ upstream: {}, downstream: { after: ["upstream"] } }))
  const [upstream] = await world.claim()

  const lock = await connect()
  await lock.query("BEGIN")
  await lock.query(`SELECT 1 FROM ${SCHEMA}.tasks WHERE run_seq = $1 AND node = 1 FOR UPDATE`, [blocked.seq])
  const batch = { holder: world.holder, gate: { lanes: [], maxClaims: 0 } }
  const slow = other.store.advance({ ...batch, changes: slowChanges, work: { lanes: [WORK], maxClaims: 9 } })
  await waitingForLock()
  await world.turn({ changes: [world.ended(upstream!)] })
  await lock.query("COMMIT")
  expect(names(world, byKind(await slow).claims)).toContain("downstream")

  const events = (await read(world.store, cursor, 15)).filter(({ runId }) => runId === run.id)
  expect(events.map(({ task, status }) => `${task} ${status}`)).toEqual([
    "undefined running",
    "upstream dispatched",
    "upstream running",
    "upstream success",
    "downstream dispatched",
  ])
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
