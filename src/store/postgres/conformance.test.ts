import pg from "pg"
import { afterAll, beforeAll, describe } from "vitest"
import { createDatabase, type TestDatabase } from "../../../test/support/postgres.ts"
import { catalogTests } from "../conformance/catalog.ts"
import { eventLogTests } from "../conformance/event-log.ts"
import { jobPropertyTests } from "../conformance/job-property.ts"
import { jobSearchTests } from "../conformance/job-search.ts"
import { jobTests } from "../conformance/jobs.ts"
import { keyTests } from "../conformance/keys.ts"
import { listTests } from "../conformance/lists.ts"
import { noticeTests } from "../conformance/notices.ts"
import { queueTests } from "../conformance/queues.ts"
import { scheduleTests } from "../conformance/schedules.ts"
import { storeSuite } from "../conformance/suite.ts"
import type { Open } from "../conformance/world.ts"
import { openPostgres, type PostgresStore } from "./postgres.ts"

let database: TestDatabase
let probe: pg.Client
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
  probe = new pg.Client({ connectionString: database.url })
  await probe.connect()
})
afterAll(async () => {
  await probe.end()
  await database.drop()
})

const CAUGHT_UP = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 AS caught_up"

/** Other tests share the server: their open transactions hold back what was committed before. */
const caughtUp = async (): Promise<void> => {
  const { rows } = await probe.query<{ xid: string }>("SELECT pg_current_xact_id()::text AS xid")
  for (;;) {
    const { rows: found } = await probe.query<{ caught_up: boolean }>(CAUGHT_UP, [rows[0]!.xid])
    if (found[0]!.caught_up) return
  }
}

const open: Open<PostgresStore> = async ({ clock, random }) => {
  const store = await openPostgres({ url: database.url, clock, random, schema: `test ${++schemas}` })
  await store.migrate()
  store.onWake(() => {})
  const readEvents: PostgresStore["readEvents"] = async (query) => {
    await caughtUp()
    return store.readEvents(query)
  }
  return { store: { ...store, readEvents }, close: () => store.close() }
}

storeSuite("Postgres", open)

describe("the server's store on Postgres", () => {
  keyTests(open)
  eventLogTests(open)
  catalogTests(open)
  scheduleTests(open)
  listTests(open)
  queueTests(open)
  jobTests(open)
  jobSearchTests(open)
  jobPropertyTests(open)
  noticeTests(open)
})
