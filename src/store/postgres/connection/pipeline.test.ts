// Pipelines, connections and transactions on a real Postgres.

import { Socket } from "node:net"
import pg from "pg"
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Pipeline, type PipelineDeps } from "./pipeline.ts"
import { Connection } from "./connection.ts"
import { ConnectionPool } from "./connection-pool.ts"
import { statement } from "./statement.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const ONE = statement("one", "SELECT 1 AS n")
const NUMBER = statement("number", "SELECT :n::int AS n")
const DIVIDE = statement("divide", "SELECT 10 / :by::int AS n")
const MISSPELT = statement("spelling", "SELEC 1 AS n")
const SPELT = { ...MISSPELT, text: "SELECT 1 AS n" }
const PID = statement("pid", "SELECT pg_backend_pid() AS pid")
const WAIT = statement("wait", "SELECT 1 AS n FROM pg_sleep(600)")

const open = async (): Promise<Connection> => {
  const connection = await Connection.open({ url: database.url, schema: "public" }, { application: "pipeline test" })
  onTestFinished(() => connection.close())
  return connection
}

const query = (text: string, values: unknown[] = []): Promise<unknown[]> => ask(database.url, text, values)

/** Resolves when the backend of that process id is in `pg_sleep`. */
const asleep = async (pid: number): Promise<void> => {
  const ASLEEP = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
  while ((await query(ASLEEP, [pid])).length === 0);
}

const pidOf = async (connection: Connection): Promise<number> => (await connection.run<{ pid: number }>(PID))[0]!.pid

beforeEach(() => {
  onTestFinished(() => void vi.restoreAllMocks())
})

const spy = (message: "sync" | "parse" | "describe" | "bind") => vi.spyOn(pg.Connection.prototype, message)

describe("statements that are sent before the first await", () => {
  const send = async (connection: Connection): Promise<unknown[]> => {
    const first = connection.run(ONE)
    await Promise.resolve()
    const second = connection.run(NUMBER, { n: 2 })
    await Promise.resolve()
    return [...(await first), ...(await second), ...(await connection.run(NUMBER, { n: 3 }))]
  }

  it("share one Sync, from a callback of the event loop too", async () => {
    const connection = await open()
    const syncs = spy("sync")
    expect(await send(connection)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(syncs).toHaveBeenCalledTimes(2)
    await new Promise((resolve) => setImmediate(() => resolve(send(connection))))
    expect(syncs).toHaveBeenCalledTimes(4)
  })

  it("see the effects of earlier ones, and have none if one fails", async () => {
    const connection = await open()
    await connection.script("CREATE TABLE seen (n int)")
    const add = statement("seen_add", "INSERT INTO seen VALUES (:n::int)")
    const added = connection.run(add, { n: 1 })
    const counted = connection.run(statement("seen_count", "SELECT count(*)::int AS n FROM seen"))
    const failed = connection.run(DIVIDE, { by: 0 })
    await expect(failed).rejects.toMatchObject({ code: "22012" })
    await expect(added).rejects.toMatchObject({ code: "22012" })
    await expect(counted).rejects.toMatchObject({ code: "22012" })
    expect(await query("SELECT * FROM seen")).toEqual([])
  })

  it("are each written at once; BEGIN is written with the next statement, Sync with COMMIT", async () => {
    const connection = await open()
    const writes = [vi.spyOn(Socket.prototype, "_write"), vi.spyOn(Socket.prototype, "_writev")]
    const written = (): number => writes.reduce((sum, { mock }) => sum + mock.calls.length, 0)
    connection.begin()
    const counts = [written()]
    const first = connection.run(ONE)
    counts.push(written())
    const second = connection.run(NUMBER, { n: 2 })
    counts.push(written())
    expect([await first, await second]).toEqual([[{ n: 1 }], [{ n: 2 }]])
    counts.push(written())
    await connection.commit()
    counts.push(written())
    expect(counts).toEqual([0, 1, 2, 3, 4])
  })

  it("keep their order around a script between them", async () => {
    const connection = await open()
    const first = connection.run(NUMBER, { n: 1 })
    const script = connection.script("CREATE TABLE between (n int); INSERT INTO between VALUES (2)")
    const second = connection.run(statement("between", "SELECT n FROM between"))
    expect([await first, await script, await second]).toEqual([[{ n: 1 }], undefined, [{ n: 2 }]])
  })
})

describe("a statement", () => {
  it("is prepared and described once per connection", async () => {
    const connection = await open()
    const [parses, describes, binds] = [spy("parse"), spy("describe"), spy("bind")]
    expect(await Promise.all([1, 2].map((n) => connection.run(NUMBER, { n })))).toEqual([[{ n: 1 }], [{ n: 2 }]])
    expect(await connection.run(NUMBER, { n: 3 })).toEqual([{ n: 3 }])
    expect([parses, describes, binds].map(({ mock }) => mock.calls.length)).toEqual([1, 1, 3])
  })

  it("returns its columns with their types, also when it runs again", async () => {
    const connection = await open()
    const typed = statement(
      "typed",
      `SELECT 9007199254740991::bigint AS big, ARRAY[1, 2]::bigint[] AS bigs, timestamptz '2026-11-15 02:03:04.5+00' AS at,
         true AS yes, NULL::bigint AS no, '' AS empty, '{"a": 1}'::json AS json, :given::text AS given`,
    )
    const row = {
      big: 9007199254740991,
      bigs: [1, 2],
      at: "2026-11-15T02:03:04.500Z",
      yes: true,
      no: null,
      empty: "",
      json: { a: 1 },
    }
    expect(await connection.run(typed, { given: null })).toEqual([{ ...row, given: null }])
    const [again] = await connection.run<object>(typed, { given: "é" })
    expect(Object.entries(again!)).toEqual(Object.entries({ ...row, given: "é" }))
  })

  it("may return no row, a large row or many rows", async () => {
    const connection = await open()
    const nothing = statement("nothing", "CREATE TEMP TABLE IF NOT EXISTS nothing (n int)")
    const many = statement("many", "SELECT i, repeat('x', :length::int) AS text FROM generate_series(1, :rows::int) AS i")
    expect(await connection.run(nothing)).toEqual([])
    expect(await connection.run(statement("empty", ""))).toEqual([])
    const [large, rows] = await Promise.all([
      connection.run<{ text: string }>(many, { length: 5_000_000, rows: 1 }),
      connection.run<{ i: number; text: string }>(many, { length: 10, rows: 20_000 }),
    ])
    expect(large[0]!.text).toBe("x".repeat(5_000_000))
    expect(rows).toHaveLength(20_000)
    expect(rows.at(-1)).toEqual({ i: 20_000, text: "xxxxxxxxxx" })
    expect(await connection.run(nothing)).toEqual([])
  })

  it("that fails makes the others of its pipeline fail, and leaves the connection usable", async () => {
    const connection = await open()
    const sent = [connection.run(ONE), connection.run(DIVIDE, { by: 0 }), connection.run(NUMBER, { n: 3 })]
    const errors = await Promise.all(sent.map((answer) => answer.catch((error: unknown) => error)))
    for (const error of errors) expect(error).toMatchObject({ code: "22012", message: "division by zero" })
    const again = [connection.run(ONE), connection.run(DIVIDE, { by: 5 }), connection.run(NUMBER, { n: 3 })]
    expect(await Promise.all(again)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
    expect(connection.broken).toBe(false)
  })

  it("with a syntax error is prepared anew under its name", async () => {
    const connection = await open()
    await expect(connection.run(MISSPELT)).rejects.toMatchObject({ code: "42601" })
    expect(await connection.run(SPELT)).toEqual([{ n: 1 }])
    await expect(connection.run(MISSPELT)).rejects.toMatchObject({ code: "42601" })
    expect(await connection.run(SPELT)).toEqual([{ n: 1 }])
  })

  it("works when it is sent again before its first run fails", async () => {
    const connection = await open()
    const failing = connection.run(DIVIDE, { by: 0 })
    connection.sync()
    const working = connection.run(DIVIDE, { by: 2 })
    await expect(failing).rejects.toMatchObject({ code: "22012" })
    expect(await working).toEqual([{ n: 5 }])
  })

  it("fails when its reply cannot be parsed", async () => {
    const client = new pg.Client({ connectionString: database.url, pipeline: true })
    await client.connect()
    onTestFinished(() => client.end())
    const unreadable = new Error("not a number")
    const fail = (): never => {
      throw unreadable
    }
    const deps: PipelineDeps = { prepared: new Map(), parserOf: () => fail, toError: (error) => error }
    await expect(client.query(new Pipeline(deps)).add(ONE, [])).rejects.toBe(unreadable)
    expect((await client.query<{ n: number }>("SELECT 1 AS n")).rows).toEqual([{ n: 1 }])
  })
})

describe("a statement in progress", () => {
  it("fails as unavailable when the server ends the connection", async () => {
    const connection = await open()
    const pid = await pidOf(connection)
    const sent = [connection.run(ONE), connection.run(WAIT), connection.run(NUMBER, { n: 1 })]
    const failed = Promise.all(sent.map((answer) => expect(answer).rejects.toThrow(StoreUnavailable)))
    await asleep(pid)
    const behind = expect(connection.run(ONE)).rejects.toThrow(StoreUnavailable)
    await query("SELECT pg_terminate_backend($1)", [pid])
    await failed
    await behind
    await expect(connection.run(ONE)).rejects.toThrow(StoreUnavailable)
    expect(connection.broken).toBe(true)
  })

  it("fails as unavailable when no reply comes for two minutes", async () => {
    const connection = await open()
    const pid = await pidOf(connection)
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const sent = [connection.run(ONE), connection.run(WAIT)]
    const failed = Promise.all(sent.map((answer) => expect(answer).rejects.toThrow(StoreUnavailable)))
    vi.advanceTimersByTime(120_000)
    vi.useRealTimers()
    await failed
    await vi.waitUntil(() => connection.broken)
    await query("SELECT pg_terminate_backend($1)", [pid])
  })

  it("is answered when the connection closes; later ones fail as unavailable", async () => {
    const connection = await open()
    const answers = Promise.all([connection.run(ONE), connection.run(NUMBER, { n: 2 })])
    const closed = connection.close()
    const late = expect(connection.script("SELECT 1")).rejects.toThrow(StoreUnavailable)
    expect(await answers).toEqual([[{ n: 1 }], [{ n: 2 }]])
    await late
    await closed
    await expect(connection.run(ONE)).rejects.toThrow(StoreUnavailable)
  })
})

describe("a transaction", () => {
  const STATUS = statement("status", "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS writes")

  const pool = (): ConnectionPool => {
    const one = new ConnectionPool({ url: database.url, schema: "public" }, 1, { application: "pipeline test" })
    onTestFinished(() => one.close())
    return one
  }

  it("is one pipeline with BEGIN and COMMIT when nothing is awaited in between", async () => {
    const one = pool()
    await one.use((connection) => connection.run(ONE))
    const syncs = spy("sync")
    const answers = await one.transaction(async (tx) => {
      const [first, second] = [tx.run(ONE), tx.run(NUMBER, { n: 2 })]
      await tx.commit()
      return [await first, await second]
    })
    expect(answers).toEqual([[{ n: 1 }], [{ n: 2 }]])
    expect(syncs).toHaveBeenCalledTimes(1)
  })

  it("with large parameters asks for each reply by itself", async () => {
    const one = pool()
    await one.use((connection) => connection.run(ONE))
    const syncs = spy("sync")
    const length = statement("length", "SELECT length(:text) AS n")
    const answers = one.transaction((tx) => Promise.all([tx.run(length, { text: "x".repeat(1_001) }), tx.run(ONE)]))
    expect(await answers).toEqual([[{ n: 1_001 }], [{ n: 1 }]])
    expect(syncs).toHaveBeenCalledTimes(3)
  })

  it("without statements sends nothing", async () => {
    const one = pool()
    await one.use((connection) => connection.run(ONE))
    const syncs = spy("sync")
    expect(await one.transaction(() => Promise.resolve(5))).toBe(5)
    expect(syncs).not.toHaveBeenCalled()
  })

  it("is rolled back even if statements sent with the failure were not awaited", async () => {
    const one = pool()
    const wrong = one.transaction((tx) => {
      void tx.run(DIVIDE, { by: 0 })
      return Promise.reject(new Error("not sent by Postgres"))
    })
    await expect(wrong).rejects.toThrow("not sent by Postgres")
    expect(await one.transaction((tx) => tx.run(STATUS))).toEqual([{ writes: false }])
  })

  it("does not fail with statements that an earlier user of its connection did not await", async () => {
    const one = pool()
    const left = one.use((connection) => {
      void connection.run(DIVIDE, { by: 0 })
      return Promise.resolve("left")
    })
    const next = one.transaction((tx) => tx.run(ONE))
    expect(await left).toBe("left")
    expect(await next).toEqual([{ n: 1 }])
  })
})
