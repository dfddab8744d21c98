// Copies of whole databases: within a store and between both.

import { DatabaseSync } from "node:sqlite"
import { beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../test/support/components/postgres.ts"
import { enforceRules } from "../../test/support/components/postgres-rules.ts"
import { newHolderId } from "../core/model/ids.ts"
import { iso } from "../core/model/ports.ts"
import { workflow } from "../core/testing.ts"
import { systemRandom } from "../engine/system.ts"
import { create } from "./conformance/jobs/jobs.ts"
import { BEGIN, expandAll, GATE, LEASE_MS, type Open, setup, WORK, type World } from "./conformance/world.ts"
import { Conflict, SchemaTooNew, StoreUnavailable } from "./contract/errors.ts"
import type { ServerStore } from "./contract/server-store.ts"
import type { TableChunk } from "./contract/transfer.ts"
import { openPostgres } from "./postgres/postgres.ts"
import { NOT_COPIED_COLUMNS, TABLES } from "./shared/tables.ts"
import { INITIAL } from "./sqlite/schema/001-initial.ts"
import { openSqlite } from "./sqlite/sqlite.ts"
import { tempFile } from "./sqlite/testing.ts"

const clock = { now: () => BEGIN + 60_000, monotonic: () => 0, after: () => () => undefined }

let database: TestDatabase
let schemas = 0
beforeAll(async () => {
  database = await createDatabase()
  return () => database.drop()
})

/** A store of each kind: `open` migrates it, `blank` does not. */
const sqlite = {
  open: (async (options) => {
    const store = await openSqlite({ path: tempFile(), ...options })
    await store.migrate()
    return { store, close: () => store.close() }
  }) satisfies Open<ServerStore>,
  async blank(): Promise<ServerStore> {
    const store = await openSqlite({ path: tempFile(), clock, random: systemRandom })
    onTestFinished(() => store.close())
    return store
  },
  checkRows: async () => {},
}

const postgresIn = (schema: string, options: Partial<Parameters<typeof openPostgres>[0]> = {}) =>
  openPostgres({ url: database.url, random: systemRandom, schema, ...options })

const postgres = {
  open: (async (options) => {
    const store = await postgresIn(`source ${++schemas}`, options)
    await store.migrate()
    return { store, close: () => store.close() }
  }) satisfies Open<ServerStore>,
  async blank(): Promise<ServerStore> {
    const store = await postgresIn(`target ${++schemas}`, { clock })
    onTestFinished(() => store.close())
    return store
  },
  /** From now on, the database rejects rows and lists that contradict each other. */
  checkRows: () => enforceRules(database.url, `target ${schemas}`),
}

const fan = { foreach: { lit: [] }, reference: "items" }
const flow = workflow({
  first: {},
  each: { fan, after: ["first"] },
  last: { after: ["each"] },
})

/** Fills a database with finished, waiting, parked and running work. */
const populate = async (world: World<ServerStore>) => {
  const { store } = world
  const done = await world.start(workflow({ only: {} }, { name: "done" }), {
    idempotencyKey: "k",
    params: { text: "ä\u0000\u{1f600}" },
  })
  const [only] = await world.claim()
  const [again] = (await world.turn({ changes: [world.again(only!, 0)], claim: 9 })).claims
  await world.turn({ changes: [world.ended(again!, "success", { rows: [1, 2.5, "x"] })] })

  const live = await world.start(flow)
  const [first] = await world.claim()
  const [container] = (await world.turn({ changes: [world.ended(first!)], gate: 9 })).gateClaims
  const limits = [{ key: "k:one", cap: 1 }]
  const { claims } = await world.turn({ changes: [expandAll(container!, ["a", "b", "c"], limits)], claim: 9 })
  expect(claims).toHaveLength(1)

  const [before] = await create(world, { queue: "mail", key: "k1", name: "mail" })
  await create(world, { queue: "mail", dependencies: [before!.id], name: "mail" })
  await world.turn({ claim: 9, lanes: ["q:mail"] })

  const schedules = [{ cron: "* * * * *", timezone: "UTC", catchup: "none", overlap: "allow" } as const]
  await store.putWorkflow({
    compiled: workflow({ a: {} }, { name: "hourly", schedules }),
    hash: "h",
    source: "",
    deploy: true,
    nextAt: [iso(BEGIN + 60_000)],
  })
  await store.putQueue("mail", { concurrency: 2, rate: { limit: 5, periodMs: 1000 }, paused: false })
  await store.createKey({
    id: "k1",
    name: "ci",
    scopes: ["read"],
    hash: "aa",
    queues: null,
    limits: null,
    createdBy: null,
    expiresInMs: null,
  })
  return { done: done.id, live: live.id, running: claims[0]!, jobs: [before!.id] }
}

/** Reads the parts of a database that users see. */
const visible = async (store: ServerStore, runs: readonly Parameters<ServerStore["getRun"]>[0][]) => ({
  runs: await store.listRuns({ limit: 10 }),
  tasks: await Promise.all(runs.map((runId) => store.listTasks({ runId, limit: 10 }))),
  jobs: await store.searchJobs({ filter: {}, limit: 10 }),
  schedules: await store.listSchedules({ limit: 10 }),
  queues: await store.listQueues(),
  keys: await store.listKeys(),
  secret: await store.getSecret(),
})

describe.each([
  ["SQLite", "SQLite", sqlite, sqlite],
  ["SQLite", "Postgres", sqlite, postgres],
  ["Postgres", "Postgres", postgres, postgres],
  ["Postgres", "SQLite", postgres, sqlite],
] as const)("a copy from %s to %s", (_from, _to, from, to) => {
  it("shows the same runs, tasks, jobs, schedules and keys", async () => {
    const world = await setup<ServerStore>(from.open)
    const { done, live } = await populate(world)
    const target = await to.blank()
    const expected = await visible(world.store, [done, live])
    const digests = await world.store.dump((dump) => target.load(dump))
    expect(digests["runs"]!.rows).toBe(2)
    expect(await visible(target, [done, live])).toEqual(expected)
  })

  it("continues live runs once: what was in flight is lost and retried, what was parked follows", async () => {
    const world = await setup<ServerStore>(from.open)
    const { live, running, jobs } = await populate(world)
    const target = await to.blank()
    await world.store.dump((dump) => target.load(dump))
    await to.checkRows()

    const holder = newHolderId(clock.now(), systemRandom.hex128())
    await target.registerHolder({ id: holder, kind: "server", name: "new", leaseMs: LEASE_MS, process: "new", runId: null })
    const orphaned = await target.reapHolders(10)
    expect(orphaned).toHaveLength(2)
    expect(orphaned).toContainEqual(expect.objectContaining({ row: running.row, attemptId: running.attemptId }))
    const advance = (changes: Parameters<ServerStore["advance"]>[0]["changes"]) =>
      target.advance({
        holder,
        changes,
        work: { lanes: [WORK, "q:mail"], maxClaims: 9 },
        gate: { lanes: [GATE], maxClaims: 9 },
      })
    let turn = await advance(orphaned.map(({ row, attemptId }) => world.again({ row, attemptId }, 0, "lost")))
    let finished = 0
    while (turn.claims.length + turn.gateClaims.length > 0) {
      finished += turn.claims.length
      turn = await advance([
        ...turn.claims.map((claim) => world.ended(claim)),
        ...turn.gateClaims.map(({ row, attemptId }) => ({
          kind: "gather" as const,
          row,
          attemptId,
          status: "success" as const,
          output: { inline: [] },
        })),
      ])
    }
    // Three instances, the last task and two jobs.
    expect(finished).toBe(6)
    expect(await target.getRun(live)).toMatchObject({ status: "success", tasks: { success: 5 } })
    expect(await target.getJob(jobs[0]!)).toMatchObject({ status: "COMPLETED" })
    const stale = await target.advance({
      holder,
      changes: [world.ended(running)],
      work: { lanes: [], maxClaims: 0 },
      gate: { lanes: [], maxClaims: 0 },
    })
    expect(stale.rejected).toHaveLength(1)
  })

  it("does not use a number again whose row was removed", async () => {
    const world = await setup<ServerStore>(from.open)
    const { done, live } = await populate(world)
    await world.store.removeRun(done, 100)
    const target = await to.blank()
    await world.store.dump((dump) => target.load(dump))
    const version = (await target.getRun(live))!
    const [made] = await target.createRuns([world.newRun({ ...version, outcome: "same" })])
    expect(made!.run.seq).toBeGreaterThan(version.seq)
    expect(made!.run.number).toBe(2)
  })

  it("leaves nothing behind when the source fails in the middle", async () => {
    const world = await setup<ServerStore>(from.open)
    await populate(world)
    const target = await to.blank()
    const failing = async function* (chunks: AsyncIterable<TableChunk> | Iterable<TableChunk>): AsyncGenerator<TableChunk> {
      for await (const chunk of chunks) {
        if (chunk.table === "tasks") throw new Error("the disk failed")
        yield chunk
      }
    }
    const load = world.store.dump(({ schemaVersion, chunks }) => target.load({ schemaVersion, chunks: failing(chunks) }))
    await expect(load).rejects.toThrow("the disk failed")
    expect(await target.isBlank()).toBe(true)
    await world.store.dump((dump) => target.load(dump))
    await expect(world.store.dump((dump) => target.load(dump))).rejects.toThrow(Conflict)
  })
})

it("a copy has the rows of one moment, while others write", async () => {
  for (const { open, blank } of [sqlite, postgres]) {
    const world = await setup<ServerStore>(open)
    await world.start(workflow({ a: {} }))
    const target = await blank()
    await world.store.dump(async (dump) => {
      await world.start(workflow({ a: {} }))
      await target.load(dump)
    })
    expect(await target.listRuns({ limit: 9 })).toHaveLength(1)
    expect(await world.store.listRuns({ limit: 9 })).toHaveLength(2)
  }
})

it("a database of the first schema version is copied and migrated", async () => {
  const path = tempFile()
  const old = new DatabaseSync(path)
  old.exec(`${INITIAL}; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;
    INSERT INTO workflows (name, created_at) VALUES ('w', '2026-01-01T00:00:00.000Z')`)
  old.close()
  const source = await openSqlite({ path, clock, random: systemRandom })
  onTestFinished(() => source.close())
  for (const { blank } of [sqlite, postgres]) {
    const target = await blank()
    await source.dump((dump) => target.load(dump))
    await target.migrate()
    await target.getSecret()
    expect(await target.listKeys()).toEqual([])
  }
})

it("a database of a newer Ork is not copied: it may have tables that this one does not know", async () => {
  const path = tempFile()
  const newer = new DatabaseSync(path)
  newer.exec("PRAGMA user_version = 999; PRAGMA journal_mode = WAL")
  newer.close()
  const lite = await openSqlite({ path, clock, random: systemRandom })
  onTestFinished(() => lite.close())
  const schema = `newer ${++schemas}`
  const other = await postgresIn(schema)
  onTestFinished(() => other.close())
  await other.migrate()
  await ask(database.url, `UPDATE "${schema}".schema_version SET version = 999`)
  for (const store of [lite, other]) await expect(store.dump(() => Promise.resolve())).rejects.toThrow(SchemaTooNew)
})

it("a database that was moved is rejected and names its new address", async () => {
  const path = tempFile()
  const source = await openSqlite({ path, clock, random: systemRandom })
  await source.migrate()
  await expect(source.dump(() => Promise.reject(new Error("no")), { movedTo: "postgres://db/ork" })).rejects.toThrow("no")
  await source.migrate()
  await source.dump(() => Promise.resolve(), { movedTo: "postgres://db/ork" })
  await source.close()
  const again = await openSqlite({ path, clock, random: systemRandom })
  onTestFinished(() => again.close())
  await expect(again.migrate()).rejects.toThrow(StoreUnavailable)
  await expect(again.migrate()).rejects.toThrow(/was moved to postgres:\/\/db\/ork .*; set ORK_DATABASE_URL/)
})

/** Tables that are not copied: processes of the database, events for streams, lists that `load` derives from tasks, bookkeeping. */
const NOT_COPIED = ["holders", "events", "ready_queue", "in_flight", "completed_seconds", "schema_version"]

it("every table and column of both schemas is copied, or listed as not copied", async () => {
  const path = tempFile()
  const store = await openSqlite({ path, clock, random: systemRandom })
  await store.migrate()
  await store.close()
  const file = new DatabaseSync(path)
  const lite = file
    .prepare(
      "SELECT m.name AS t, c.name AS c FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
    )
    .all() as { t: string; c: string }[]
  file.close()
  const schema = `columns ${++schemas}`
  const other = await postgresIn(schema)
  await other.migrate()
  await other.close()
  const pg = await ask<{ t: string; c: string }>(
    database.url,
    "SELECT table_name AS t, column_name AS c FROM information_schema.columns WHERE table_schema = $1",
    [schema],
  )
  const copied = (columns: { t: string; c: string }[]): string[] =>
    columns
      .filter(({ t }) => !NOT_COPIED.includes(t))
      .map(({ t, c }) => `${t}.${c}`)
      .filter((name) => !NOT_COPIED_COLUMNS.includes(name))
      .toSorted()
  expect(copied(lite)).toEqual(copied(pg))
  expect(new Set(copied(lite).map((name) => name.split(".")[0]))).toEqual(new Set(Object.keys(TABLES)))
})
