// Transactions of a program on both databases: jobs that are created in them, and results that are committed with them.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import { describe, expect, it, onTestFinished } from "vitest"
import { z } from "zod"
import { createDatabase } from "../../test/support/components/postgres.ts"
import type { RunId } from "../core/model/ids.ts"
import { planRetry, type RetryReset } from "../core/rules/runs/retry-plan.ts"
import type { SqlTransaction } from "../store/contract/transactions.ts"
import { type Definition, task, txTask, workflow } from "./definitions.ts"
import { InvalidInputError, NotFoundError, TaskFailedError, TransactionError } from "./errors.ts"
import { graph } from "./graph/graph.ts"
import { openParts } from "./open.ts"
import { Ork } from "./ork.ts"
import { testOrk } from "./test.ts"

type Kind = "sqlite" | "postgres"

interface Database {
  url: string
  folder: string
  /** Runs a statement outside of Ork. */
  query(sql: string): Promise<Record<string, unknown>[]>
}

/** Returns a new database with a table `ledger` of the user. */
const databaseOf = async (kind: Kind): Promise<Database> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-transactions-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const database = kind === "sqlite" ? openFile(join(folder, "app.db")) : await openServer()
  await database.query("CREATE TABLE ledger (entry text, cents int)")
  return { ...database, folder }
}

const openFile = (path: string): Omit<Database, "folder"> => {
  const handle = new DatabaseSync(path)
  handle.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000")
  onTestFinished(() => handle.close())
  return { url: `sqlite:${path}`, query: async (sql) => handle.prepare(sql).all() }
}

const openServer = async (): Promise<Omit<Database, "folder">> => {
  const created = await createDatabase()
  const client = new pg.Client({ connectionString: created.url })
  client.on("error", () => {})
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await created.drop()
  })
  return { url: created.url, query: async (sql) => (await client.query<Record<string, unknown>>(sql)).rows }
}

const open = async ({ url, folder }: Database, run: readonly Definition[]): Promise<Ork> => {
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const ork = await Ork.open({ database: url, objects: `file:${join(folder, "objects")}`, run, log })
  onTestFinished(() => ork.stop({ grace: 0 }))
  return ork
}

const entriesOf = async ({ query }: Database): Promise<unknown[]> =>
  (await query("SELECT entry FROM ledger ORDER BY entry")).map(({ entry }) => entry)

const double = task("double", { input: z.object({ n: z.number() }) }, ({ n }) => ({ twice: 2 * n }))

describe.each<Kind>(["sqlite", "postgres"])("on %s", (kind) => {
  /** Begins a transaction of the user, and returns it with its end. */
  const begin = async ({ url }: Database): Promise<{ tx: pg.Client | DatabaseSync; end(sql: string): Promise<unknown> }> => {
    if (kind === "sqlite") {
      const handle = new DatabaseSync(url.slice("sqlite:".length))
      handle.exec("PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE")
      onTestFinished(() => handle.close())
      return { tx: handle, end: async (sql) => handle.exec(sql) }
    }
    const client = new pg.Client({ connectionString: url })
    client.on("error", () => {})
    await client.connect()
    onTestFinished(() => client.end())
    await client.query("BEGIN")
    return { tx: client, end: (sql) => client.query(sql) }
  }

  describe("enqueue with tx", () => {
    it("creates jobs that run after the commit, and none after a rollback", async () => {
      const database = await databaseOf(kind)
      const ork = await open(database, [double])
      const kept = await begin(database)
      const job = await ork.enqueue(double, { n: 2 }, { tx: kept.tx })
      const many = await ork.enqueueAll(double, [{ n: 3 }, { n: 4 }], { tx: kept.tx })
      expect([job.created, job.status, job.input]).toEqual([true, "ready", { n: 2 }])
      expect(await ork.get(job.id)).toBeNull()
      await kept.end("COMMIT")
      expect(await Promise.all([job, ...many].map((each) => each.result({ timeout: "20s" })))).toEqual([
        { twice: 4 },
        { twice: 6 },
        { twice: 8 },
      ])
      const undone = await begin(database)
      const gone = await ork.enqueue(double, { n: 5 }, { tx: undone.tx })
      await undone.end("ROLLBACK")
      expect(await ork.get(gone.id)).toBeNull()
    })

    it("says before the commit that the job does not exist yet, and after a rollback that it never will", async () => {
      const database = await databaseOf(kind)
      for (const run of [[double], []]) {
        const ork = await open(database, run)
        const { tx, end } = await begin(database)
        const job = await ork.enqueue(double, { n: 2 }, { tx })
        const rejects = async (call: () => Promise<unknown>): Promise<void> => {
          await expect(call()).rejects.toThrow(NotFoundError)
          await expect(call()).rejects.toThrow(
            `there is no job ${job.id}: the transaction that creates it has not been committed`,
          )
        }
        await rejects(() => job.result())
        await rejects(() => job.refresh())
        await end("ROLLBACK")
        for (const call of ["result", "refresh", "cancel", "retry"] as const) await rejects(() => job[call]())
      }
    })

    it("finds the job of a key", async () => {
      const database = await databaseOf(kind)
      const ork = await open(database, [])
      const first = await ork.enqueue(double, { n: 1 }, { key: "k" })
      const { tx, end } = await begin(database)
      const second = await ork.enqueue(double, { n: 2 }, { key: "k", tx })
      expect([second.id, second.created, second.input]).toEqual([first.id, false, { n: 1 }])
      await expect(ork.enqueue(double, { n: 2 }, { key: "k", tx, onConflict: "error" })).rejects.toThrow(first.id)
      await end("ROLLBACK")
    })

    it("writes nothing for an invalid input, another kind of transaction, or one that has not begun", async () => {
      const database = await databaseOf(kind)
      const ork = await open(database, [])
      const { tx, end } = await begin(database)
      await expect(ork.enqueue(double, { n: "1" as unknown as number }, { tx })).rejects.toThrow(InvalidInputError)
      await end("COMMIT")
      await expect(ork.enqueue(double, { n: 1 }, { tx })).rejects.toThrow(TransactionError)
      const memory = new DatabaseSync(":memory:")
      memory.exec("BEGIN")
      await expect(ork.enqueue(double, { n: 1 }, { tx: memory })).rejects.toThrow(TransactionError)
      memory.close()
      await expect(ork.enqueue(double, { n: 1 }, { tx: memory })).rejects.toThrow(TransactionError)
      await expect(Array.fromAsync(ork.list({ def: double }))).resolves.toEqual([])
    })
  })

  describe("a txTask", () => {
    const Charge = z.object({ order: z.string(), cents: z.number() })
    const charge = txTask("charge", { input: Charge }, async ({ order, cents }, { tx }) => {
      await tx.query("INSERT INTO ledger VALUES ($1, $2)", [order, cents])
      const { rows } = await tx.query<{ cents: number }>("SELECT cents FROM ledger WHERE entry = $1", [order])
      return { order, cents: rows[0]!.cents }
    })

    it("commits what its handler writes", async () => {
      const database = await databaseOf(kind)
      const ork = await open(database, [charge])
      const job = await ork.enqueue(charge, { order: "o1", cents: 4200 })
      expect(await job.result({ timeout: "20s" })).toEqual({ order: "o1", cents: 4200 })
      expect(await entriesOf(database)).toEqual(["o1"])
    })

    it("rolls back a failed attempt, and retries it", async () => {
      const database = await databaseOf(kind)
      const flaky = txTask("flaky", { retry: { attempts: 2, delay: 1 } }, async (_, { tx, attempt }) => {
        await tx.query("INSERT INTO ledger VALUES ($1, 1)", [`attempt ${attempt}`])
        if (attempt === 1) throw new Error("once")
        return null
      })
      const ork = await open(database, [flaky])
      await (await ork.enqueue(flaky, null)).result({ timeout: "20s" })
      expect(await entriesOf(database)).toEqual(["attempt 2"])
    })

    it("creates jobs that exist if it commits", async () => {
      const database = await databaseOf(kind)
      const next: string[] = []
      const parent = txTask("parent", { retry: { attempts: 2, delay: 1 } }, async (_, { tx, attempt }) => {
        next.push((await ork.enqueue(double, { n: attempt }, { tx })).id)
        if (attempt === 1) throw new Error("once")
        return next.at(-1)!
      })
      const ork = await open(database, [parent, double])
      const id = await (await ork.enqueue(parent, null)).result({ timeout: "20s" })
      expect(await (await ork.get(id))!.result({ timeout: "20s" })).toEqual({ twice: 4 })
      expect(await ork.get(next[0]!)).toBeNull()
    })

    it("writes again in a run that is retried from it, while tasks before it keep what they have written", async () => {
      const database = await databaseOf(kind)
      const write = txTask("write", {}, async (entry: unknown, { tx }) => {
        await tx.query("INSERT INTO ledger VALUES ($1, 1)", [JSON.stringify(entry)])
        return { entry: "done" }
      })
      const shop = graph("shop", {}, (g) => {
        const first = g.task("first", write, { task: "first" })
        const second = g.task("second", write, { task: "second", after: first.entry })
        g.each("each", [1, 2], write, (n) => ({ task: "each", n, after: second.entry }))
        g.eachGroup("part", [1], (inner, n) => inner.task("inner", write, { task: "inner", n, after: second.entry }))
      })
      const ork = await open(database, [shop])
      const run = await ork.enqueue(shop, {})
      await run.result({ timeout: "20s" })
      const written = async (): Promise<string[]> =>
        (await entriesOf(database)).map((entry) => (JSON.parse(String(entry)) as { task: string }).task)
      expect(await written()).toEqual(["each", "each", "first", "inner", "second"])
      const { store } = await openParts({ database: database.url, objects: `file:${database.folder}`, run: [] })
      onTestFinished(() => store.close())
      const id = run.id as RunId
      const row = (await store.getRun(id))!
      const states = [...(await store.listRowStates(id)), ...(await store.listInnerRowStates({ runId: id, limit: 100 }))]
      const plan = planRetry(await store.getVersion(row.versionId), row, states, { from: "second" })
      expect(await store.retryRun(id, (plan as { reset: RetryReset }).reset)).toBe(true)
      await run.result({ timeout: "20s" })
      expect(await written()).toEqual(["each", "each", "each", "each", "first", "inner", "inner", "second", "second"])
    })

    it("fails when its handler ends the transaction itself", async () => {
      const database = await databaseOf(kind)
      const early = txTask("early", { retry: { attempts: 1 } }, async (_, { tx }) => {
        await tx.query("COMMIT")
        return null
      })
      const ork = await open(database, [early])
      const job = await ork.enqueue(early, null)
      await expect(job.result({ timeout: "20s" })).rejects.toThrow(TaskFailedError)
    })

    it("writes nothing with tx after its handler has returned", async () => {
      const database = await databaseOf(kind)
      const handlerEnded = Promise.withResolvers<void>()
      const late = Promise.withResolvers<unknown>()
      const careless = txTask("careless", {}, (_, { tx }) => {
        void handlerEnded.promise.then(() => tx.query("INSERT INTO ledger VALUES ('late', 1)")).then(late.resolve, late.reject)
      })
      const ork = await open(database, [careless])
      await (await ork.enqueue(careless, null)).result({ timeout: "20s" })
      handlerEnded.resolve()
      await expect(late.promise).rejects.toThrow("tx has ended: await its queries before the function returns")
    })

    it("returns results that are objects in the object store", async () => {
      const database = await databaseOf(kind)
      const large = txTask("large", {}, async (_, { tx }) => {
        await tx.query("INSERT INTO ledger VALUES ('large', 1)")
        return "x".repeat(100_000)
      })
      const ork = await open(database, [large])
      expect(await (await ork.enqueue(large, null)).result({ timeout: "20s" })).toHaveLength(100_000)
    })
  })

  describe("step.tx", () => {
    it("commits its result with what it writes, and is not repeated when the function continues", async () => {
      const database = await databaseOf(kind)
      const flow = workflow("flow", {}, async (_, step) => {
        const at = step.now().getTime()
        const first = await step.tx("pay", async (tx) => {
          await tx.query("INSERT INTO ledger VALUES ($1, 1)", ["pay"])
          return { paid: true, at }
        })
        await step.sleep("a moment", 20)
        await step.tx("ship", (tx) => tx.query("INSERT INTO ledger VALUES ($1, 2)", ["ship"]).then(() => null))
        return { paid: first.paid, sameTime: first.at === at }
      })
      const ork = await open(database, [flow])
      const run = await ork.enqueue(flow, {})
      expect(await run.result({ timeout: "20s" })).toEqual({ paid: true, sameTime: true })
      expect(await entriesOf(database)).toEqual(["pay", "ship"])
    })

    it("rolls back a failed try, and fails after its retries", async () => {
      const database = await databaseOf(kind)
      const flow = workflow("flow", {}, async (_, step) => {
        await step.tx(
          "second try",
          async (tx, { attempt }) => {
            await tx.query("INSERT INTO ledger VALUES ($1, 1)", [`try ${attempt}`])
            if (attempt === 1) throw new Error("once")
          },
          { retry: { attempts: 2, delay: 1 } },
        )
        const failed = step.tx("never", (tx) => tx.query("INSERT INTO no_such_table VALUES (1)"), { retry: { attempts: 1 } })
        return await failed.then(
          () => "written",
          () => "failed",
        )
      })
      const ork = await open(database, [flow])
      expect(await (await ork.enqueue(flow, {})).result({ timeout: "20s" })).toBe("failed")
      expect(await entriesOf(database)).toEqual(["try 2"])
    })
  })
})

describe("on Postgres,", () => {
  it("a step.tx whose connection breaks is repeated without a failed try", async () => {
    const database = await databaseOf("postgres")
    let breaks = true
    const flow = workflow("flow", {}, async (_, step) => {
      const pay = async (tx: SqlTransaction, attempt: number): Promise<number> => {
        await tx.query("INSERT INTO ledger VALUES ('pay', 1)")
        const { rows } = await tx.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")
        if (breaks) await database.query(`SELECT pg_terminate_backend(${rows[0]!.pid})`)
        breaks = false
        await tx.query("INSERT INTO ledger VALUES ('paid', 1)")
        return attempt
      }
      return await step.tx("pay", (tx, { attempt }) => pay(tx, attempt), { retry: { attempts: 1 } })
    })
    const ork = await open(database, [flow])
    expect(await (await ork.enqueue(flow, {})).result({ timeout: "20s" })).toBe(1)
    expect(await entriesOf(database)).toEqual(["paid", "pay"])
  })

  it("a step.tx that waits longer than its role allows fails, and is not repeated", async () => {
    const database = await databaseOf("postgres")
    const flow = workflow("flow", {}, async (_, step) => {
      const slow = async (tx: SqlTransaction): Promise<void> => {
        await tx.query("SET LOCAL idle_in_transaction_session_timeout = 1")
        const isOver = (): Promise<boolean> =>
          tx.query("SELECT 1").then(
            () => false,
            () => true,
          )
        await expect.poll(isOver).toBe(true)
        throw new Error("too slow")
      }
      return await step.tx("slow", slow, { retry: { attempts: 1 } })
    })
    const ork = await open(database, [flow])
    await expect((await ork.enqueue(flow, {})).result({ timeout: "20s" })).rejects.toThrow("too slow")
  })
})

describe("on SQLite, a transaction excludes everything else of its file:", () => {
  it("an operation without tx in it is rejected, and does not wait for ever", async () => {
    const database = await databaseOf("sqlite")
    const outside = txTask("outside", { retry: { attempts: 1 } }, async () => {
      await ork.enqueue(double, { n: 1 })
      return null
    })
    const ork = await open(database, [outside])
    const job = await ork.enqueue(outside, null)
    await expect(job.result({ timeout: "20s" })).rejects.toThrow(/pass \{ tx \} to enqueue/)
  })

  it("other work waits, and reads see committed data only", async () => {
    const database = await databaseOf("sqlite")
    const started = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const slow = txTask("slow", {}, async (_, { tx }) => {
      await tx.query("INSERT INTO ledger VALUES ('slow', 1)")
      started.resolve()
      await goOn.promise
      return null
    })
    const ork = await open(database, [slow, double])
    const job = await ork.enqueue(slow, null)
    await started.promise
    expect(await entriesOf(database)).toEqual([])
    const other = ork.enqueue(double, { n: 1 })
    const read = ork.get(job.id)
    goOn.resolve()
    expect((await read)!.name).toBe("slow")
    expect(await (await other).result({ timeout: "20s" })).toEqual({ twice: 2 })
    expect(await entriesOf(database)).toEqual(["slow"])
  })
})

describe("in the test kit", () => {
  it("a txTask and step.tx write to the database of the test; a crash rolls an open transaction back", async () => {
    let blocks = true
    const tries: number[] = []
    const setUp = txTask("set-up", {}, async (_, { tx }) => {
      await tx.query("CREATE TABLE ledger (entry text)")
      return null
    })
    const pay = txTask("pay", {}, async (_, { tx, attempt }) => {
      tries.push(attempt)
      await tx.query("INSERT INTO ledger VALUES ($1)", [`attempt ${attempt}`])
      if (blocks) await new Promise(() => {})
      return (await tx.query("SELECT entry FROM ledger")).rows
    })
    await using ork = await testOrk({ run: [setUp, pay] })
    await ork.enqueue(setUp, null)
    await ork.advance("1s")
    const job = await ork.enqueue(pay, null)
    await ork.advance("1s")
    blocks = false
    await ork.crash()
    await ork.advance("1m")
    expect(await job.result()).toEqual([{ entry: "attempt 2" }])
    expect(tries).toEqual([1, 2])
  })
})
