import { afterAll, beforeAll } from "vitest"
import { createDatabase, type TestDatabase } from "../../../test/support/postgres.ts"
import { storeSuite } from "../conformance/suite.ts"
import { openPostgres } from "./postgres.ts"

let database: TestDatabase
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

storeSuite("Postgres", async ({ clock, random }) => {
  const store = await openPostgres({ url: database.url, clock, random, schema: `test ${++schemas}` })
  await store.migrate()
  store.onWake(() => {})
  return { store, close: () => store.close() }
})
