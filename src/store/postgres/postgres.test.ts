// Behaviour that only Postgres has: several stores on one database, locks, lost connections.

import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { enforceRules } from "../../../test/support/components/postgres-rules.ts"
import { TcpProxy } from "../../../test/support/components/tcp-proxy.ts"
import type { Change } from "../../core/model/change.ts"
import { type HolderId, newHolderId, newRunId } from "../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../core/rules/jobs/jobs.ts"
import { workflow } from "../../core/testing.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { seededRandom, WORK } from "../conformance/world.ts"
import { withAudit } from "../contract/audit-scope.ts"
import { InvalidValue, StoreUnavailable } from "../contract/errors.ts"
import { JOB_DEFAULTS, type NewJob } from "../contract/jobs.ts"
import type { ServerStore } from "../contract/server-store.ts"
import type { AdvanceResult, Claim, TaskClaim, NewRun, StoredVersion } from "../contract/store.ts"
import { openPostgres } from "./postgres.ts"

let database: TestDatabase
let schemas = 0
let seeds = 0

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

interface Server {
  store: ServerStore
  holder: HolderId
  turn(changes?: Change[], claim?: number): Promise<AdvanceResult>
}

/** Opens another store on the same tables, as another process would. */
const join = async (url: string, schema: string, silenceMs?: number): Promise<Server> => {
  const random = seededRandom(++seeds)
  const store = await openPostgres({ url, random, schema, ...(silenceMs !== undefined && { silenceMs }) })
  onTestFinished(() => store.close())
  await store.migrate()
  await enforceRules(url, schema)
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: `server ${seeds}`, leaseMs: 60_000, process: "", runId: null })
  return {
    store,
    holder,
    turn: (changes = [], limit = 0) =>
      store.advance({ holder, changes, work: { lanes: [WORK], maxClaims: limit }, gate: { lanes: ["g"], maxClaims: 0 } }),
  }
}

const setup = (): { schema: string; join: () => Promise<Server> } => {
  const schema = `test ${++schemas}`
  return { schema, join: () => join(database.url, schema) }
}

const newRunOf = ({ workflowId, versionId }: StoredVersion): NewRun => ({
  id: newRunId(Date.now(), seededRandom(++seeds).hex128()),
  workflowId,
  versionId,
  trigger: "manual",
  params: {},
  priority: null,
  logicalDate: null,
  idempotencyKey: null,
  private: false,
  workingDir: null,
})

const start = async ({ store }: Server, compiled: CompiledWorkflow, count: number): Promise<void> => {
  const version = await store.putWorkflow({ compiled, hash: compiled.name, source: "", deploy: true })
  await store.createRuns(Array.from({ length: count }, () => newRunOf(version)))
}

const tasksOf = ({ claims }: AdvanceResult): TaskClaim[] => claims.filter((claim) => claim.kind !== "job")

const ended = ({ row, attemptId }: Pick<Claim, "row" | "attemptId">): Change => ({
  kind: "finish",
  row,
  attemptId,
  status: "success",
  result: { state: "success", startedAt: Date.now(), finishedAt: Date.now(), output: { inline: 1 } },
})

const query = <T extends pg.QueryResultRow>(text: string, values: unknown[] = [], url = database.url): Promise<T[]> =>
  ask(url, text, values)

/** URL of the database with settings for the connections. */
const withOptions = (options: string): string => {
  const url = new URL(database.url)
  url.searchParams.set("options", options)
  return url.href
}

const DEADLOCKS = "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()"

const wide = (width: number): CompiledWorkflow =>
  workflow({
    ...Object.fromEntries(Array.from({ length: width }, (_, i) => [`a${i}`, {}])),
    last: { after: Array.from({ length: width }, (_, i) => `a${i}`) },
  })

describe("several stores on one database", () => {
  it("claim every row exactly once", async () => {
    const world = setup()
    const servers = await Promise.all(Array.from({ length: 4 }, world.join))
    await start(servers[0]!, wide(20), 20)
    const claimed = await Promise.all(
      servers.map(async (server) => {
        const rows: number[] = []
        for (let empty = 0; empty < 3;) {
          const { claims, more } = await server.turn([], 7)
          rows.push(...claims.map((claim) => claim.row))
          empty = claims.length === 0 && !more ? empty + 1 : 0
        }
        return rows
      }),
    )
    const rows = claimed.flat()
    expect(new Set(rows).size).toBe(rows.length)
    expect(rows).toHaveLength(400)
  })

  it("do not remove a limit under which one of them puts a job", async () => {
    const { schema, join } = setup()
    const [one, other] = [await join(), await join()]
    const job = (): NewJob => ({
      id: newRunId(Date.now(), seededRandom(++seeds).hex128()),
      name: "job",
      queue: "default",
      payload: null,
      priority: 5,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      task: { command: { shell: "true", vars: [] } },
      ...JOB_DEFAULTS,
      concurrencyKey: "key",
    })
    await one.store.createJobs([job()])
    await one.turn((await one.turn([], 1)).claims.map(ended))
    const blocker = new pg.Client({ connectionString: database.url })
    await blocker.connect()
    onTestFinished(() => blocker.end())
    await blocker.query(`BEGIN; LOCK TABLE "${schema}".jobs IN SHARE MODE`)
    const creating = one.store.createJobs([job(), job()])
    await waiting("ork")
    expect(await other.store.trimLimits(9)).toBe(0)
    await blocker.query("COMMIT")
    await creating
    expect((await one.turn([], 9)).claims).toHaveLength(1)
  })

  it("finish tasks of overlapping runs from 8 connections in 400 transactions without a deadlock", async () => {
    const world = setup()
    const servers = await Promise.all(Array.from({ length: 8 }, world.join))
    const first = servers[0]!
    await start(first, wide(400), 10)
    const claims: TaskClaim[] = []
    for (let more = true; more;) {
      const turn = await first.turn([], 1000)
      claims.push(...tasksOf(turn))
      more = turn.claims.length > 0
    }
    expect(claims).toHaveLength(4000)
    const [before] = await query<{ deadlocks: number }>(DEADLOCKS)
    // Transaction n ends the n-th task of every run, the runs in another order each time; so all of them meet.
    const byRun = [...Map.groupBy(claims, (claim) => claim.runSeq).values()]
    const batches = Array.from({ length: 400 }, (_, n) =>
      byRun.map((run) => run[n]!).toSorted((a, b) => ((a.row * (n + 1)) % 7) - ((b.row * (n + 1)) % 7)),
    )
    const work = batches.values()
    const closed: TaskClaim[] = []
    await Promise.all(
      servers.map(async (server) => {
        for (const batch of work) {
          const turn = await server.turn(batch.map(ended), 1)
          expect(turn.rejected).toEqual([])
          closed.push(...tasksOf(turn))
        }
      }),
    )
    const [after] = await query<{ deadlocks: number }>(DEADLOCKS)
    expect(after!.deadlocks - before!.deadlocks).toBe(0)
    while (closed.length < 10) closed.push(...tasksOf(await first.turn([], 10)))
    expect(closed.map((claim) => claim.node)).toEqual(Array.from({ length: 10 }, () => 400))
  })

  it("wake each other when rows become ready, and not themselves", async () => {
    const world = setup()
    const [one, two] = [await world.join(), await world.join()]
    const heard: string[] = []
    const woken = Promise.withResolvers<void>()
    one.store.onWake(() => heard.push("one"))
    two.store.onWake(() => {
      heard.push("two")
      woken.resolve()
    })
    await listening(2)
    await start(one, workflow({ a: {} }), 1)
    await woken.promise
    expect(new Set(heard)).toEqual(new Set(["two"]))
  })

  it("start a pending run whose place becomes free at the same moment", async () => {
    const world = setup()
    const [one, two] = [await world.join(), await world.join()]
    const flow = workflow({ a: {} }, { maxActiveRuns: 1 })
    await start(one, flow, 1)
    for (let i = 0; i < 20; i++) {
      const { claims } = await one.turn([], 1)
      expect(claims).toHaveLength(1)
      await Promise.all([one.turn(claims.map(ended)), start(two, flow, 1)])
    }
  })

  it("wake the others when a turn unblocks more rows than it claims", async () => {
    const world = setup()
    const [one, two] = [await world.join(), await world.join()]
    await start(one, workflow({ a: {}, b: { after: ["a"] }, c: { after: ["a"] } }), 1)
    const { claims } = await one.turn([], 1)
    const woken = Promise.withResolvers<void>()
    two.store.onWake(woken.resolve)
    await listening(1)
    expect((await one.turn(claims.map(ended), 1)).claims).toHaveLength(1)
    await woken.promise
    expect((await two.turn([], 9)).claims).toHaveLength(1)
  })

  it("renew a lease while every connection for writes waits for a lock", async () => {
    const world = setup()
    const server = await world.join()
    await start(server, workflow({ a: {} }), 1)
    const [run] = await server.store.listRuns({ limit: 1 })
    const blocker = new pg.Client({ connectionString: database.url })
    await blocker.connect()
    onTestFinished(() => blocker.end())
    await blocker.query(`BEGIN; SELECT 1 FROM "${world.schema}".runs FOR UPDATE`)
    const writes = Array.from({ length: 6 }, () => server.store.setPaused(run!.id, true))
    expect(await server.store.renewLease(server.holder, 60_000)).toBe(true)
    await blocker.query("ROLLBACK")
    await Promise.all(writes)
  })

  it("reject the change of a holder whose attempt was lost to another", async () => {
    const world = setup()
    const [one, two] = [await world.join(), await world.join()]
    await start(one, workflow({ a: {} }), 1)
    const [claim] = (await one.turn([], 1)).claims
    await one.store.renewLease(one.holder, -1)
    const [lost] = await two.store.reapHolders(10)
    expect(lost).toMatchObject({ row: claim!.row, attemptId: claim!.attemptId })
    const result = { state: "lost", startedAt: null, finishedAt: Date.now() } as const
    const again: Change = { ...lost!, kind: "retry", delayMs: 0, lost: true, result }
    const [second] = (await two.turn([again], 1)).claims
    expect(second).toMatchObject({ row: claim!.row, attempt: 2, losses: 1 })
    const late = await one.turn([ended(claim!)], 1)
    expect(late).toMatchObject({ rejected: [{ row: claim!.row }], claims: [], events: [] })
    expect(await one.store.renewLease(one.holder, 60_000)).toBe(false)
  })

  it("distinguish the old attempt of a row from the new one, also in one batch", async () => {
    const world = setup()
    const [one, two] = [await world.join(), await world.join()]
    await start(one, workflow({ a: {} }), 1)
    const [old] = (await one.turn([], 1)).claims
    const result = { state: "lost", startedAt: null, finishedAt: Date.now() } as const
    await two.turn([{ kind: "retry", row: old!.row, attemptId: old!.attemptId, delayMs: 0, lost: true, result }])
    const [fresh] = (await one.turn([], 1)).claims
    const { rejected, events } = await one.turn([ended(old!), ended(fresh!)])
    expect(rejected).toEqual([{ row: old!.row, attemptId: old!.attemptId }])
    expect(events.map(({ type, status }) => `${type} ${status}`)).toEqual(["task running", "task success", "run success"])
  })
})

/** Resolves when that many connections listen. */
const listening = async (count: number): Promise<void> => {
  const LISTENING =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'ork listen' AND (query LIKE 'LISTEN%' OR query = 'SELECT 1') AND datname = current_database() AND state = 'idle'"
  for (;;) if ((await query<{ n: number }>(LISTENING))[0]!.n >= count) return
}

const TERMINATE =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1 AND datname = current_database()"

describe("the ready queue", () => {
  it("hides no row behind stale entries, which the first claim deletes", async () => {
    const { schema, join: another } = setup()
    const server = await another()
    await start(server, workflow({ x: {} }), 1)
    const first = await server.turn([], 10)
    await server.turn(first.claims.map(ended))
    const [{ id } = { id: 0 }] = await query<{ id: number }>(`SELECT id FROM "${schema}".tasks`)
    for (const priority of [9, 5, 5, 5])
      await query(
        `INSERT INTO "${schema}".ready_queue SELECT lane, $2, workflow_id, run_seq, id FROM "${schema}".tasks WHERE id = $1`,
        [id, priority],
      )
    await start(server, workflow({ x: {} }), 3)
    const claimed: number[] = []
    for (let more = true; more;) {
      const turn = await server.turn([], 2 - claimed.length)
      claimed.push(...turn.claims.map(({ row }) => row))
      more = turn.more && claimed.length < 2
    }
    expect(claimed).toHaveLength(2)
    expect(claimed).not.toContain(id)
    const [{ left } = { left: -1 }] = await query<{ left: number }>(`SELECT count(*)::int AS left FROM "${schema}".ready_queue`)
    expect(left).toBe(1)
  })
})

describe("a limit", () => {
  it("whose slot becomes free writes no other row than the one that gets it, however many queues wait", async () => {
    const { schema, join } = setup()
    const { store, holder } = await join()
    const tasks = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`t${i}`, { queue: `q${i}` }]))
    const version = await store.putWorkflow({
      compiled: workflow(tasks, { concurrency: 1 }),
      hash: "h",
      source: "",
      deploy: true,
    })
    await store.createRuns([newRunOf(version)])
    const turn = (changes: Change[]) =>
      store.advance({ holder, changes, work: { lanes: ["q:*"], maxClaims: 9 }, gate: { lanes: ["g"], maxClaims: 0 } })
    const { claims } = await turn([])
    const parked = () =>
      query<{ id: number }>(`SELECT id, xmin::text FROM "${schema}".tasks WHERE parked IS NOT NULL ORDER BY id`)
    const before = await parked()
    expect(before).toHaveLength(5)
    const next = await turn(claims.map(ended))
    expect(next.claims).toHaveLength(1)
    expect(await parked()).toEqual(before.filter(({ id }) => Number(id) !== next.claims[0]!.row))
  })

  it("unparks a row that another transaction had locked when the slot became free", async () => {
    const { schema, join: another } = setup()
    const server = await another()
    await start(server, workflow({ a: { concurrency: 1, gated: false }, b: {} }, { concurrency: 1 }), 1)
    const { claims } = await server.turn([], 9)
    expect(claims).toHaveLength(1)
    const other = new pg.Client({ connectionString: database.url })
    await other.connect()
    onTestFinished(() => other.end())
    await other.query(`BEGIN; SELECT 1 FROM "${schema}".tasks WHERE parked > 0 FOR UPDATE`)
    const freed = await server.turn(claims.map(ended), 9)
    expect([freed.claims, freed.nextDueMs]).toEqual([[], expect.any(Number)])
    await other.query("COMMIT")
    expect((await server.turn([], 9)).claims).toHaveLength(1)
  })
})

describe("a table that lacks a column for a while", () => {
  it("says nothing about the content of a change, which can be committed afterwards", async () => {
    const { schema, join } = setup()
    const server = await join()
    await start(server, workflow({ a: {} }), 1)
    const { claims } = await server.turn([], 1)
    await query(`ALTER TABLE "${schema}".tasks RENAME COLUMN exit_code TO renamed`)
    const error: unknown = await server.turn(claims.map(ended)).catch((cause: unknown) => cause)
    expect(error).toMatchObject({ message: expect.stringContaining("does not exist") })
    expect(error).not.toBeInstanceOf(InvalidValue)
    await query(`ALTER TABLE "${schema}".tasks RENAME COLUMN renamed TO exit_code`)
    expect((await server.turn(claims.map(ended))).rejected).toEqual([])
  })
})

describe("a lost connection", () => {
  it("in the middle of a turn leaves nothing half-written, and the turn can be repeated", async () => {
    const world = setup()
    const server = await world.join()
    await start(server, workflow({ a: {}, b: { after: ["a"] } }), 1)
    const { claims } = await server.turn([], 1)
    // The turn waits for this lock, with its first statements already done.
    const blocker = new pg.Client({ connectionString: database.url })
    await blocker.connect()
    await blocker.query(`BEGIN; SELECT * FROM "${world.schema}".tasks WHERE node = 1 FOR UPDATE`)
    const turn = server.turn(claims.map(ended), 1)
    const failed = expect(turn).rejects.toThrow(StoreUnavailable)
    await waiting()
    await query(TERMINATE, ["ork advance"])
    await failed
    await blocker.query("ROLLBACK")
    await blocker.end()
    const run = (await server.store.listRuns({ limit: 1 }))[0]!
    expect(run.tasks).toMatchObject({ dispatched: 1, pending: 1, success: 0 })
    const again = await server.turn(claims.map(ended), 1)
    expect(again).toMatchObject({ rejected: [], claims: [{ node: 1 }] })
  })

  it("in the reply to a COMMIT does not hide the runs that it created", async () => {
    const road = await startRoad(database.url)
    const { store } = await join(road.url, setup().schema)
    const version = await store.putWorkflow({ compiled: workflow({ a: {} }), hash: "", source: "", deploy: true })
    const run = newRunOf(version)
    road.loseNextCommit()
    const entry = { keyId: null, actor: "ci", subject: null, address: null, action: "run.create", target: "test" }
    const request = { ...entry, result: "ok", details: null, request: "r1" }
    const { result } = await withAudit(request, () => store.createRuns([run]))
    expect(result).toMatchObject([{ run: { id: run.id }, created: true }])
    expect(await store.listRuns({ limit: 9 })).toHaveLength(1)
    expect(await store.listAudit({ limit: 9 })).toMatchObject([request])
  })

  it("in the reply to a COMMIT does not free the slots of a waiting attempt twice", async () => {
    const road = await startRoad(database.url)
    const server = await join(road.url, setup().schema)
    await start(server, workflow({ a: {}, b: {}, c: {}, d: {} }, { concurrency: 2 }), 1)
    const { claims } = await server.turn([], 9)
    expect(claims).toHaveLength(2)
    const { row, attemptId } = claims[0]!
    const wait: Change = { row, attemptId, kind: "wait", waitingOn: { kind: "approval", message: "go?" }, delayMs: null }
    road.loseNextCommit()
    await expect(server.turn([wait])).rejects.toThrow(StoreUnavailable)
    const repeated = await server.turn([wait], 9)
    expect(repeated.rejected).toEqual([])
    const later = await server.turn([], 9)
    expect([...repeated.claims, ...later.claims]).toHaveLength(1)
  })

  it("that stalls while it holds the lock of the audit log holds up others for seconds only", { timeout: 20_000 }, async () => {
    const road = await startRoad(database.url)
    const { schema, join: another } = setup()
    const other = await another()
    const { store } = await join(road.url, schema, 60_000)
    const entry = {
      keyId: null,
      actor: "ci",
      subject: null,
      address: null,
      action: "a",
      target: "t",
      result: "ok",
      details: null,
    }
    road.freezeAt("audit_append")
    store.appendAudit([{ ...entry, request: null }]).catch(() => undefined)
    const HELD = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = 'ork'"
    await expect.poll(() => query(HELD)).toHaveLength(1)
    const begun = performance.now()
    await other.store.appendAudit([{ ...entry, request: null }])
    expect(performance.now() - begun).toBeLessThan(10_000)
  })

  it("of idle connections is not noticed by callers", async () => {
    const server = await setup().join()
    await server.turn()
    await query(TERMINATE, ["ork%"])
    await gone()
    await start(server, workflow({ a: {} }), 1)
    expect((await server.turn([], 1)).claims).toHaveLength(1)
  })

  it("of the listener is reopened, which wakes the engine", async () => {
    const server = await setup().join()
    let woken = Promise.withResolvers<void>()
    server.store.onWake(() => woken.resolve())
    await listening(1)
    await query(TERMINATE, ["ork listen"])
    await woken.promise
    woken = Promise.withResolvers<void>()
    const other = await join(database.url, `test ${schemas}`)
    await start(other, workflow({ a: {} }), 1)
    await woken.promise
  })

  it("that nobody closes is found by its silence, also the one that listens", async () => {
    const road = await startRoad(database.url)
    const { schema, join: another } = setup()
    const other = await another()
    const server = await join(road.url, schema, 500)
    let wakes = 0
    server.store.onWake(() => void (wakes += 1))
    await listening(1)
    await server.turn([], 1)
    road.freeze()
    await start(other, workflow({ a: {} }), 1)
    const before = wakes
    await expect(server.turn([], 1)).rejects.toThrow(StoreUnavailable)
    await expect.poll(() => wakes, { timeout: 10_000 }).toBeGreaterThan(before)
    expect((await server.turn([], 1)).claims).toHaveLength(1)
  })

  it.each([
    ["that waits for a lock is not mistaken for a dead one", "on"],
    ["whose activity Postgres does not track is not mistaken for a dead one", "off"],
  ])("%s", async (_, activities) => {
    const { schema } = setup()
    const server = await join(withOptions(`-c track_activities=${activities}`), schema, 100)
    await start(server, workflow({ a: {} }), 1)
    const { claims } = await server.turn([], 1)
    const blocker = new pg.Client({ connectionString: database.url })
    await blocker.connect()
    onTestFinished(() => blocker.end())
    await blocker.query(`BEGIN; SELECT 1 FROM "${schema}".runs FOR UPDATE`)
    const turn = server.turn(claims.map(ended))
    await waiting()
    await blocker.query("SELECT pg_sleep(0.5)")
    await blocker.query("COMMIT")
    expect((await turn).rejected).toEqual([])
  })

  it("that gets no reply while it is opened is given up within 5 s", async () => {
    const proxy = await TcpProxy.start(Number(new URL(database.url).port))
    onTestFinished(() => proxy.stop())
    proxy.setSilent(true)
    const url = new URL(database.url)
    url.port = String(proxy.port)
    const store = await openPostgres({ url: url.href, random: seededRandom(++seeds) })
    onTestFinished(() => store.close())
    const begun = performance.now()
    await expect(store.listHolders()).rejects.toThrow(StoreUnavailable)
    expect(performance.now() - begun).toBeLessThan(5000)
  })

  it("to a database that is down fails as unavailable, and works again when it is up", async () => {
    const road = await startRoad(database.url)
    const server = await join(road.url, setup().schema)
    const woken = Promise.withResolvers<void>()
    await start(server, workflow({ a: {}, b: { after: ["a"] } }), 1)
    const { claims } = await server.turn([], 1)
    server.store.onWake(woken.resolve)
    await listening(1)
    await road.close()
    await expect(server.turn(claims.map(ended), 1)).rejects.toThrow(StoreUnavailable)
    await expect(server.store.listRuns({ limit: 1 })).rejects.toThrow(/127\.0\.0\.1:\d+\/\w+ is not available: /)
    await expect(server.store.renewLease(server.holder, 1000)).rejects.toThrow(StoreUnavailable)
    await road.open()
    expect(await server.turn(claims.map(ended), 1)).toMatchObject({ rejected: [], claims: [{ node: 1 }] })
    await woken.promise
  })
})

/** A proxy to the database that can be closed: its connections break, and new ones are rejected. */
interface Road {
  url: string
  open(): Promise<void>
  close(): Promise<void>
  /** Forwards nothing more on the open connections, and keeps them open. */
  freeze(): void
  /** Freezes when a message with this text is sent. */
  freezeAt(text: string): void
  /** Forwards the next COMMIT and breaks the connection instead of its reply. */
  loseNextCommit(): void
}

const startRoad = async (url: string): Promise<Road> => {
  const there = new URL(url)
  const sockets = new Set<Socket>()
  let losesCommit = false
  let freezesAt: string | null = null
  const freeze = (): void => {
    for (const socket of sockets) socket.unpipe().pause()
  }
  const road = createServer((near) => {
    const far = connect(Number(there.port), there.hostname)
    near.on("data", (sent) => {
      if (freezesAt !== null && sent.includes(freezesAt)) freeze()
      if (!losesCommit || !sent.includes("commit\0")) return
      losesCommit = false
      far.unpipe(near)
      far.on("data", (reply) => {
        if (reply.includes("COMMIT")) near.destroy()
      })
      far.resume()
    })
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.pipe(to)
      from.on("error", () => to.destroy())
      from.on("close", () => to.destroy())
    }
  })
  const open = async (port: number): Promise<void> => {
    road.listen(port, "127.0.0.1")
    await once(road, "listening")
  }
  const close = async (): Promise<void> => {
    const closed = once(road, "close")
    road.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await open(0)
  const { port } = road.address() as AddressInfo
  onTestFinished(async () => {
    if (road.listening) await close()
  })
  const here = new URL(url)
  here.port = String(port)
  return {
    url: here.href,
    open: () => open(port),
    close,
    freeze,
    freezeAt: (text) => void (freezesAt = text),
    loseNextCommit: () => void (losesCommit = true),
  }
}

/** Resolves when a turn, or another application, waits for a lock. */
const waiting = async (application = "ork advance"): Promise<void> => {
  const WAITING = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'"
  while ((await query(WAITING, [application])).length === 0);
}

/** Resolves when no connection of a store is left. */
const gone = async (): Promise<void> => {
  const OPEN = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'ork%' AND datname = current_database()"
  while ((await query(OPEN)).length > 0);
}

describe("a row for the gate", () => {
  it("is claimed although an earlier turn had no limit left for it", async () => {
    const server = await setup().join()
    server.store.onWake(() => {})
    await listening(1)
    const turn = (gate: number): Promise<AdvanceResult> => {
      const { holder } = server
      return server.store.advance({
        holder,
        changes: [],
        work: { lanes: [WORK], maxClaims: 1 },
        gate: { lanes: ["g"], maxClaims: gate },
      })
    }
    await turn(9)
    await turn(9)
    await start(server, workflow({ a: { rule: "all_done" } }), 1)
    expect((await turn(0)).gateClaims).toEqual([])
    expect((await turn(9)).gateClaims).toHaveLength(1)
  })
})
