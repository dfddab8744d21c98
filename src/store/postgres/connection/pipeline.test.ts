// Through sessions, on a real Postgres.

import { Socket } from "node:net"
import pg from "pg"
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/postgres.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Pipeline, type PipelineDeps } from "./pipeline.ts"
import { Connection, statement } from "./connection.ts"
import { ConnectionPool } from "./connection-pool.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const ONE = statement("one", "SELECT 1 AS n")
const NUMBER = statement("number", "SELECT $1::int AS n")
const DIVIDE = statement("divide", "SELECT 10 / $1::int AS n")
const MISSPELT = statement("spelling", "SELEC 1 AS n")
const SPELT = statement("spelling", "SELECT 1 AS n")
const PID = statement("pid", "SELECT pg_backend_pid() AS pid")
const WAIT = statement("wait", "SELECT 1 AS n FROM pg_sleep(600)")

const open = async (): Promise<Connection> => {
  const session = await Connection.open({ url: database.url, schema: "public" }, "exchange test")
  onTestFinished(() => session.close())
  return session
}

const query = (text: string, values: unknown[] = []): Promise<unknown[]> => ask(database.url, text, values)

/** Resolves when the backend of that process id is in `pg_sleep`. */
const asleep = async (pid: number): Promise<void> => {
  const ASLEEP = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
  while ((await query(ASLEEP, [pid])).length === 0);
}

const pidOf = async (session: Connection): Promise<number> => (await session.run<{ pid: number }>(PID))[0]!.pid

beforeEach(() => {
  onTestFinished(() => void vi.restoreAllMocks())
})

const spy = (message: "sync" | "parse" | "describe" | "bind") => vi.spyOn(pg.Connection.prototype, message)

describe("statements that are sent before waiting", () => {
  const send = async (session: Connection): Promise<unknown[]> => {
    const first = session.run(ONE)
    await Promise.resolve()
    const second = session.run(NUMBER, [2])
    await Promise.resolve()
    return [...(await first), ...(await second), ...(await session.run(NUMBER, [3]))]
  }

  it("share one Sync, from a callback of the event loop too", async () => {
    const session = await open()
    const syncs = spy("sync")
    expect(await send(session)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(syncs).toHaveBeenCalledTimes(2)
    await new Promise((resolve) => setImmediate(() => resolve(send(session))))
    expect(syncs).toHaveBeenCalledTimes(4)
  })

  it("see what those before them did, and are seen by nobody if one fails", async () => {
    const session = await open()
    await session.script("CREATE TABLE seen (n int)")
    const add = statement("seen_add", "INSERT INTO seen VALUES ($1::int)")
    const added = session.run(add, [1])
    const counted = session.run(statement("seen_count", "SELECT count(*)::int AS n FROM seen"))
    const failed = session.run(DIVIDE, [0])
    await expect(failed).rejects.toMatchObject({ code: "22012" })
    await expect(added).rejects.toMatchObject({ code: "22012" })
    await expect(counted).rejects.toMatchObject({ code: "22012" })
    expect(await query("SELECT * FROM seen")).toEqual([])
  })

  it("are each written at once; BEGIN goes with the next, Sync with COMMIT", async () => {
    const session = await open()
    const writes = [vi.spyOn(Socket.prototype, "_write"), vi.spyOn(Socket.prototype, "_writev")]
    const written = (): number => writes.reduce((sum, { mock }) => sum + mock.calls.length, 0)
    session.begin()
    const counts = [written()]
    const first = session.run(ONE)
    counts.push(written())
    const second = session.run(NUMBER, [2])
    counts.push(written())
    expect([await first, await second]).toEqual([[{ n: 1 }], [{ n: 2 }]])
    counts.push(written())
    await session.commit()
    counts.push(written())
    expect(counts).toEqual([0, 1, 2, 3, 4])
  })

  it("do not lose their order to a script between them", async () => {
    const session = await open()
    const first = session.run(NUMBER, [1])
    const script = session.script("CREATE TABLE between (n int); INSERT INTO between VALUES (2)")
    const second = session.run(statement("between", "SELECT n FROM between"))
    expect([await first, await script, await second]).toEqual([[{ n: 1 }], undefined, [{ n: 2 }]])
  })
})

describe("a statement", () => {
  it("is prepared and described once per connection", async () => {
    const session = await open()
    const [parses, describes, binds] = [spy("parse"), spy("describe"), spy("bind")]
    expect(await Promise.all([1, 2].map((n) => session.run(NUMBER, [n])))).toEqual([[{ n: 1 }], [{ n: 2 }]])
    expect(await session.run(NUMBER, [3])).toEqual([{ n: 3 }])
    expect([parses, describes, binds].map(({ mock }) => mock.calls.length)).toEqual([1, 1, 3])
  })

  it("answers with the types of its columns, the second time too", async () => {
    const session = await open()
    const typed = statement(
      "typed",
      `SELECT 9007199254740991::bigint AS big, ARRAY[1, 2]::bigint[] AS bigs, timestamptz '2026-11-15 02:03:04.5+00' AS at,
         true AS yes, NULL::bigint AS no, '' AS empty, '{"a": 1}'::json AS json, $1::text AS given`,
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
    expect(await session.run(typed, [null])).toEqual([{ ...row, given: null }])
    const [again] = await session.run<object>(typed, ["é"])
    expect(Object.entries(again!)).toEqual(Object.entries({ ...row, given: "é" }))
  })

  it("may answer with nothing, with much, or with many rows", async () => {
    const session = await open()
    const nothing = statement("nothing", "CREATE TEMP TABLE IF NOT EXISTS nothing (n int)")
    const many = statement("many", "SELECT i, repeat('x', $1::int) AS text FROM generate_series(1, $2::int) AS i")
    expect(await session.run(nothing)).toEqual([])
    expect(await session.run(statement("empty", ""))).toEqual([])
    const [large, rows] = await Promise.all([
      session.run<{ text: string }>(many, [5_000_000, 1]),
      session.run<{ i: number; text: string }>(many, [10, 20_000]),
    ])
    expect(large[0]!.text).toBe("x".repeat(5_000_000))
    expect(rows).toHaveLength(20_000)
    expect(rows.at(-1)).toEqual({ i: 20_000, text: "xxxxxxxxxx" })
    expect(await session.run(nothing)).toEqual([])
  })

  it("that fails takes those with it that were sent with it, and the connection works on", async () => {
    const session = await open()
    const sent = [session.run(ONE), session.run(DIVIDE, [0]), session.run(NUMBER, [3])]
    const errors = await Promise.all(sent.map((answer) => answer.catch((error: unknown) => error)))
    for (const error of errors) expect(error).toMatchObject({ code: "22012", message: "division by zero" })
    const again = [session.run(ONE), session.run(DIVIDE, [5]), session.run(NUMBER, [3])]
    expect(await Promise.all(again)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
    expect(session.broken).toBe(false)
  })

  it("that Postgres could not read is prepared anew under its name", async () => {
    const session = await open()
    await expect(session.run(MISSPELT)).rejects.toMatchObject({ code: "42601" })
    expect(await session.run(SPELT)).toEqual([{ n: 1 }])
    await expect(session.run(MISSPELT)).rejects.toMatchObject({ code: "42601" })
    expect(await session.run(SPELT)).toEqual([{ n: 1 }])
  })

  it("that is sent again while its first try is under way and fails works", async () => {
    const session = await open()
    const failing = session.run(DIVIDE, [0])
    session.sync()
    const working = session.run(DIVIDE, [2])
    await expect(failing).rejects.toMatchObject({ code: "22012" })
    expect(await working).toEqual([{ n: 5 }])
  })

  it("whose answer cannot be read fails", async () => {
    const client = new pg.Client({ connectionString: database.url, pipeline: true })
    await client.connect()
    onTestFinished(() => client.end())
    const unreadable = new Error("not a number")
    const fail = (): never => {
      throw unreadable
    }
    const deps: PipelineDeps = { prepared: new Map(), parserOf: () => fail, asError: (error) => error }
    await expect(client.query(new Pipeline(deps)).add(ONE, [])).rejects.toBe(unreadable)
    expect((await client.query<{ n: number }>("SELECT 1 AS n")).rows).toEqual([{ n: 1 }])
  })
})

describe("what is under way", () => {
  it("fails as unavailable when the connection is ended by the server", async () => {
    const session = await open()
    const pid = await pidOf(session)
    const sent = [session.run(ONE), session.run(WAIT), session.run(NUMBER, [1])]
    const failed = Promise.all(sent.map((answer) => expect(answer).rejects.toThrow(StoreUnavailable)))
    await asleep(pid)
    const behind = expect(session.run(ONE)).rejects.toThrow(StoreUnavailable)
    await query("SELECT pg_terminate_backend($1)", [pid])
    await failed
    await behind
    await expect(session.run(ONE)).rejects.toThrow(StoreUnavailable)
    expect(session.broken).toBe(true)
  })

  it("fails as unavailable when no answer comes for two minutes", async () => {
    const session = await open()
    const pid = await pidOf(session)
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const sent = [session.run(ONE), session.run(WAIT)]
    const failed = Promise.all(sent.map((answer) => expect(answer).rejects.toThrow(StoreUnavailable)))
    vi.advanceTimersByTime(120_000)
    vi.useRealTimers()
    await failed
    await vi.waitUntil(() => session.broken)
    await query("SELECT pg_terminate_backend($1)", [pid])
  })

  it("is answered when the session is closed; what comes later fails as unavailable", async () => {
    const session = await open()
    const answers = Promise.all([session.run(ONE), session.run(NUMBER, [2])])
    const closed = session.close()
    const late = expect(session.script("SELECT 1")).rejects.toThrow(StoreUnavailable)
    expect(await answers).toEqual([[{ n: 1 }], [{ n: 2 }]])
    await late
    await closed
    await expect(session.run(ONE)).rejects.toThrow(StoreUnavailable)
  })
})

describe("a transaction", () => {
  const STATUS = statement("status", "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS writes")

  const sessions = (): ConnectionPool => {
    const one = new ConnectionPool({ url: database.url, schema: "public" }, "exchange test", 1)
    onTestFinished(() => one.close())
    return one
  }

  it("travels in one exchange, BEGIN and COMMIT too, when nothing waits", async () => {
    const one = sessions()
    await one.use((session) => session.run(ONE))
    const syncs = spy("sync")
    const answers = await one.transaction(async (tx) => {
      const [first, second] = [tx.run(ONE), tx.run(NUMBER, [2])]
      await tx.commit()
      return [await first, await second]
    })
    expect(answers).toEqual([[{ n: 1 }], [{ n: 2 }]])
    expect(syncs).toHaveBeenCalledTimes(1)
  })

  it("about many rows has each answer as soon as it is there", async () => {
    const one = sessions()
    await one.use((session) => session.run(ONE))
    const syncs = spy("sync")
    const length = statement("length", "SELECT length($1) AS n")
    const answers = one.transaction((tx) => Promise.all([tx.run(length, ["x".repeat(1_001)]), tx.run(ONE)]))
    expect(await answers).toEqual([[{ n: 1_001 }], [{ n: 1 }]])
    expect(syncs).toHaveBeenCalledTimes(3)
  })

  it("that sends nothing costs nothing", async () => {
    const one = sessions()
    await one.use((session) => session.run(ONE))
    const syncs = spy("sync")
    expect(await one.transaction(() => Promise.resolve(5))).toBe(5)
    expect(syncs).not.toHaveBeenCalled()
  })

  it("is rolled back even if what was sent with the failure was not awaited", async () => {
    const one = sessions()
    const wrong = one.transaction((tx) => {
      void tx.run(DIVIDE, [0])
      return Promise.reject(new Error("not sent by Postgres"))
    })
    await expect(wrong).rejects.toThrow("not sent by Postgres")
    expect(await one.transaction((tx) => tx.run(STATUS))).toEqual([{ writes: false }])
  })

  it("does not fail with what another left unanswered on its connection", async () => {
    const one = sessions()
    const left = one.use((session) => {
      void session.run(DIVIDE, [0])
      return Promise.resolve("left")
    })
    const next = one.transaction((tx) => tx.run(ONE))
    expect(await left).toBe("left")
    expect(await next).toEqual([{ n: 1 }])
  })
})
