// `Ork.open` through a real PgBouncer. In its transaction mode, each transaction may get another session of a few that all clients share.
// Skipped, with a message, where PgBouncer cannot be installed.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { describe, expect, it, onTestFinished } from "vitest"
import { z } from "zod"
import { Ork, signal, task, txTask, workflow } from "../../src/sdk/index.ts"
import { messageOf } from "../../src/core/values/error-message.ts"
import { openPostgres } from "../../src/store/postgres/postgres.ts"
import { systemRandom } from "../../src/engine/system.ts"
import { installPgBouncer, startPgBouncer } from "../support/components/pgbouncer.ts"
import { ask, createDatabase } from "../support/components/postgres.ts"

const missing = await installPgBouncer().then(
  () => null,
  (error: unknown) => error,
)
if (missing !== null) process.stderr.write(`PgBouncer is not tested: ${messageOf(missing)}\n`)

const double = task("double", { input: z.object({ n: z.number() }) }, ({ n }) => ({ twice: 2 * n }))
const paid = signal("paid", z.object({ cents: z.number() }))
const charge = txTask("charge", { input: z.object({ entry: z.string() }) }, async ({ entry }, { tx }) => {
  await tx.query("INSERT INTO public.ledger VALUES ($1)", [entry])
  return null
})
const order = workflow("order", {}, async (_, step) => {
  const first = await step.run("first", () => 1)
  await step.tx("write", (tx) => tx.query("INSERT INTO public.ledger VALUES ('order')").then(() => null))
  const payment = await step.waitFor(paid, { timeout: "1h" })
  await step.sleep("a moment", 20)
  const called = await step.call(double, { n: payment!.cents })
  return { first, called }
})

const open = async (database: string, run: Parameters<typeof Ork.open>[0]["run"]): Promise<Ork> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-pooler-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const ork = await Ork.open({ database, objects: `file:${folder}`, run, log })
  onTestFinished(() => ork.stop({ grace: 0 }))
  return ork
}

/** Starts PgBouncer in front of a new database with a table `ledger` of the user. */
const setup = async (mode: "transaction" | "session", sessions?: number): Promise<{ direct: string; pooled: string }> => {
  const database = await createDatabase()
  await ask(database.url, "CREATE TABLE ledger (entry text)")
  const pooler = await startPgBouncer(database.url, mode, sessions)
  onTestFinished(async () => {
    await pooler.stop()
    await database.drop()
  })
  return { direct: database.url, pooled: pooler.url }
}

const clientOf = async (url: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const USER_SETTINGS = `SELECT current_setting('search_path') AS path, current_setting('enable_seqscan') AS seqscan,
  (SELECT count(*)::int FROM pg_prepared_statements) AS prepared,
  (SELECT count(*)::int FROM pg_listening_channels()) AS channels`

describe.skipIf(missing !== null)("through PgBouncer in transaction mode", () => {
  it("a program that only produces creates jobs, also in a transaction of the user, for engines with a connection of their own", async () => {
    const { direct, pooled } = await setup("transaction")
    const engine = await open(direct, [double])
    const producer = await open(pooled, [])
    const client = await clientOf(pooled)
    await client.query("BEGIN")
    const inTransaction = await producer.enqueue(double, { n: 1 }, { tx: client })
    await client.query("COMMIT")
    const plain = await producer.enqueue(double, { n: 2 }, { key: "k" })
    const again = await producer.enqueue(double, { n: 3 }, { key: "k" })
    const many = await producer.enqueueAll(double, [{ n: 4 }, { n: 5 }])
    const results = await Promise.all([inTransaction, plain, again, ...many].map((job) => job.result({ timeout: "20s" })))
    expect(results).toEqual([2, 4, 4, 8, 10].map((twice) => ({ twice })))
    expect((await engine.get(plain.id))!.status).toBe("completed")
  })

  it("an engine runs jobs, durable functions and the user's transactions, and finds the work of others by polling", async () => {
    const { direct, pooled } = await setup("transaction")
    const engine = await open(pooled, [double, charge, order])
    const other = await open(direct, [])
    const run = await engine.enqueue(order, {})
    await engine.signal(run, paid, { cents: 4 })
    await (await engine.enqueue(charge, { entry: "charge" })).result({ timeout: "20s" })
    const jobs = await engine.enqueueAll(
      double,
      Array.from({ length: 200 }, (_, n) => ({ n })),
    )
    expect(await Promise.all(jobs.map((job) => job.result({ timeout: "20s" })))).toHaveLength(200)
    expect(await run.result({ timeout: "20s" })).toEqual({ first: 1, called: { twice: 8 } })
    const found = await other.enqueue(double, { n: 7 })
    expect(await found.result({ timeout: "20s" })).toEqual({ twice: 14 })
    expect(await ask(direct, "SELECT entry FROM ledger ORDER BY 1")).toEqual([{ entry: "charge" }, { entry: "order" }])
  })

  it("leaves nothing in the sessions of other clients: settings, prepared statements, channels", async () => {
    const { pooled } = await setup("transaction", 1)
    const ork = await open(pooled, [double])
    await (await ork.enqueue(double, { n: 1 })).result({ timeout: "20s" })
    const client = await clientOf(pooled)
    const { rows } = await client.query(USER_SETTINGS)
    expect(rows).toEqual([{ path: '"$user", public', seqscan: "on", prepared: 0, channels: 0 }])
  })

  it("copies of the database are complete", async () => {
    const { pooled } = await setup("transaction")
    const ork = await open(pooled, [double])
    await (await ork.enqueue(double, { n: 1 })).result({ timeout: "20s" })
    const store = await openPostgres({ url: pooled, random: systemRandom })
    onTestFinished(() => store.close())
    const tables = await store.dump(async ({ chunks }) =>
      (await Array.fromAsync(chunks)).map(({ table, rows }) => [table, rows.length]),
    )
    expect(tables).toContainEqual(["jobs", 1])
  })
})

describe.skipIf(missing !== null)("through PgBouncer in session mode", () => {
  it("an engine runs jobs and durable functions", async () => {
    const { pooled } = await setup("session", 40)
    const ork = await open(pooled, [double, charge, order])
    const run = await ork.enqueue(order, {})
    await ork.signal(run, paid, { cents: 1 })
    expect(await run.result({ timeout: "20s" })).toEqual({ first: 1, called: { twice: 2 } })
  })
})
