import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { migrationLockSuite } from "../../conformance/admin/migrations.ts"
import { seededRandom } from "../../conformance/world.ts"
import { SchemaTooNew } from "../../contract/errors.ts"
import type { Store } from "../../contract/store.ts"
import { ConnectionPool } from "../connection/connection-pool.ts"
import { migrate, MIGRATIONS } from "./migrations.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const open = async (schema: string): Promise<Store> => {
  const store = await openPostgres({ url: database.url, random: seededRandom(1), schema })
  onTestFinished(() => store.close())
  return store
}

const query = (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> => ask(database.url, text, values)

const SCHEMA = `
SELECT c.relname AS name, format('%s %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
  CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')) AS line
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r'
UNION ALL SELECT c.relname, 'CONSTRAINT ' || k.conname || ' ' || pg_get_constraintdef(k.oid, true)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.connamespace = to_regnamespace($1) AND k.contype <> 'n'
UNION ALL SELECT i.tablename, i.indexdef FROM pg_indexes i WHERE i.schemaname = $1
UNION ALL SELECT c.relname, 'WITH (' || array_to_string(c.reloptions, ', ') || ')'
FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' AND c.reloptions IS NOT NULL
ORDER BY 1, 2`

describe("migrations", () => migrationLockSuite(MIGRATIONS, new URL("migrations.lock", import.meta.url)))

it("the migrations produce schema.txt", async () => {
  await (await open("snapshot")).migrate()
  const lines = await query(SCHEMA, ["snapshot"])
  const text = lines.map(({ name, line }) => `${String(name)}: ${String(line)}\n`).join("")
  await expect(text).toMatchFileSnapshot("schema.txt")
})

it("stores that start at the same time migrate once", async () => {
  const stores = await Promise.all([1, 2, 3, 4].map(() => open("together")))
  await Promise.all(stores.map((store) => store.migrate()))
  expect(await query("SELECT version FROM together.schema_version")).toEqual([{ version: MIGRATIONS.length }])
})

it("a migration that meets a working server in a deadlock is tried again", async () => {
  const pool = new ConnectionPool({ url: database.url, schema: "locked" }, 1, { application: "ork" })
  onTestFinished(() => pool.close())
  const target = { url: database.url, schema: "locked" }
  const steps = ["CREATE TABLE a (x int); CREATE TABLE b (x int)", "ALTER TABLE b ADD y int; ALTER TABLE a ADD y int"]
  await migrate(pool, target, steps.slice(0, 1))
  const other = new pg.Client({ connectionString: database.url })
  await other.connect()
  onTestFinished(() => other.end())
  await other.query("BEGIN; INSERT INTO locked.a VALUES (1)")
  const migrating = migrate(pool, target, steps)
  const WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'ork'"
  await expect.poll(() => query(WAITING)).toHaveLength(1)
  await other.query("INSERT INTO locked.b VALUES (1)")
  await other.query("COMMIT")
  await migrating
  expect(await query("SELECT version FROM locked.schema_version")).toEqual([{ version: 2 }])
  expect(await query("SELECT x, y FROM locked.a")).toEqual([{ x: 1, y: null }])
})

it("a migration does not hold up a working server behind a lock that is held for long", async () => {
  const pool = new ConnectionPool({ url: database.url, schema: "long" }, 1, { application: "ork" })
  onTestFinished(() => pool.close())
  const target = { url: database.url, schema: "long" }
  const steps = ["CREATE TABLE a (x int)", "ALTER TABLE a ADD y int"]
  await migrate(pool, target, steps.slice(0, 1))
  const other = new pg.Client({ connectionString: database.url })
  await other.connect()
  onTestFinished(() => other.end())
  await other.query("BEGIN; SELECT * FROM long.a")
  const migrating = migrate(pool, target, steps)
  const WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'ork'"
  await expect.poll(() => query(WAITING)).toHaveLength(1)
  // Waits behind the migration, which gives up for a moment.
  await query("SELECT * FROM long.a")
  await other.query("COMMIT")
  await migrating
  expect(await query("SELECT version FROM long.schema_version")).toEqual([{ version: 2 }])
})

it("a schema of a newer Ork is rejected", async () => {
  const store = await open("newer")
  await store.migrate()
  await query("UPDATE newer.schema_version SET version = $1", [MIGRATIONS.length + 1])
  await expect(store.migrate()).rejects.toThrow(SchemaTooNew)
})

it("two schemas of one database are independent", async () => {
  const [one, two] = [await open("one"), await open("two")]
  await one.migrate()
  await two.migrate()
  await one.registerHolder({ id: holder, kind: "server", name: "x", leaseMs: 1000, process: "", runId: null })
  expect(await one.listHolders()).toHaveLength(1)
  expect(await two.listHolders()).toEqual([])
})

const holder = "0198f000-0000-7000-8000-000000000001" as Parameters<Store["renewLease"]>[0]
