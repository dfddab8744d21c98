// Jobs and queues with several servers on one database: ends, cancels and new dependencies that meet each other.

import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/postgres.ts"
import { enforceRules } from "../../../../test/support/postgres-rules.ts"
import type { Change } from "../../../core/model/change.ts"
import { newHolderId, uuidv7 } from "../../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY, dependencyStatus, type JobStatus } from "../../../core/rules/jobs.ts"
import type { Random } from "../../../core/model/ports.ts"
import { seededRandom } from "../../conformance/world.ts"
import type { JobRow, NewJob } from "../../contract/jobs.ts"
import type { Advanced, Claim } from "../../contract/store.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

interface Server {
  store: ServerStore
  turn(changes: Change[], claim: number): Promise<Advanced>
}

const join = async (schema: string, random: Random): Promise<Server> => {
  const store = await openPostgres({ url: database.url, random, schema })
  onTestFinished(() => store.close())
  await store.migrate()
  await enforceRules(database.url, schema)
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  return {
    store,
    turn: (changes, limit) =>
      store.advance({ holder, changes, claim: { lanes: ["q:*"], limit }, gate: { lanes: ["g"], limit: 0 } }),
  }
}

const newJob = (random: Random, input: Partial<NewJob> = {}): NewJob => ({
  id: uuidv7(Date.now(), random.hex128()),
  name: "resize",
  queue: "default",
  payload: null,
  priority: 5,
  dependencies: [],
  retryPolicy: DEFAULT_JOB_RETRY,
  task: { command: { shell: "true", vars: [] } },
  concurrencyKey: null,
  ...input,
})

const idsOf = (claims: readonly Claim[]): string[] => claims.flatMap((claim) => (claim.kind === "job" ? claim.job.id : []))

const ended = ({ row, attemptId }: Pick<Claim, "row" | "attemptId">, status: "success" | "failed"): Change => ({
  kind: "finish",
  row,
  attemptId,
  status,
  result: { state: status, startedAt: Date.now(), finishedAt: Date.now() },
})

const pick = (random: Random, n: number): number => Math.floor(random.next() * n)

const everyJob = async (store: ServerStore): Promise<JobRow[]> => store.searchJobs({ filter: {}, limit: 10_000 })

const LEFT = (schema: string): string =>
  `SELECT (SELECT count(*)::int FROM "${schema}".stop_requests) AS stops, (SELECT COALESCE(sum(used), 0)::int FROM "${schema}".limits) AS used`

const left = async (schema: string): Promise<{ stops: number; used: number }> =>
  (await ask<{ stops: number; used: number }>(database.url, LEFT(schema)))[0]!

describe("jobs with two servers", () => {
  it.each([1, 2])("end by the rules, whatever meets (seed %i)", async (seed) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(seed)
    const servers = [await join(schema, random), await join(schema, seededRandom(seed + 100))]
    const [first] = servers
    const ids: string[] = []
    const make = async (): Promise<void> => {
      for (let i = 0; i < 15; i++) {
        const batch = Array.from({ length: 4 }, () => {
          const dependencies = [...new Set(Array.from({ length: pick(random, 3) }, () => ids[pick(random, ids.length)] ?? ""))]
          const key = pick(random, 3) === 0 ? "k" : null
          const queue = pick(random, 2) === 0 ? "a" : "b"
          return newJob(random, { dependencies: dependencies.filter((id) => id !== ""), concurrencyKey: key, queue })
        })
        expect(await first!.store.createJobs(batch)).toHaveLength(batch.length)
        ids.push(...batch.map(({ id }) => id))
        if (pick(random, 4) === 0) await first!.store.cancelJob(ids[pick(random, ids.length)]!)
        if (pick(random, 4) === 0) await first!.store.updateJob(ids[pick(random, ids.length)]!, { queue: "c" })
      }
    }
    let making = true
    const work = async ({ turn }: Server, chance: Random): Promise<void> => {
      for (let idle = 0; making || idle < 3;) {
        const last = !making
        const { claims, more } = await turn([], 3)
        idle = last && claims.length === 0 && !more ? idle + 1 : 0
        const changes = claims.map((claim) => ended(claim, pick(chance, 8) === 0 ? "failed" : "success"))
        if (changes.length > 0) expect((await turn(changes, 0)).rejected).toEqual([])
      }
    }
    const working = servers.map((server, i) => work(server, seededRandom(seed + i)))
    await make().finally(() => (making = false))
    await Promise.all(working)

    const jobs = await everyJob(first!.store)
    const statuses = new Map<string, JobStatus>(jobs.map(({ id, status }) => [id, status]))
    expect(jobs).toHaveLength(ids.length)
    for (const job of jobs) {
      expect(["COMPLETED", "FAILED", "BLOCKED"]).toContain(job.status)
      const above = dependencyStatus(job, statuses)
      if (job.status === "COMPLETED") expect(above).toBe("SATISFIED")
      if (job.status === "BLOCKED") expect(above).toBe("BLOCKED")
    }
    expect(await left(schema)).toEqual({ stops: 0, used: 0 })
  })
})

const WAITS = "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'job_edges' AND NOT l.granted"
const WAITS_FOR_ROW = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"

const rowIsWaitedFor = async (client: pg.Client): Promise<void> => {
  await vi.waitUntil(async () => (await client.query(WAITS_FOR_ROW)).rows.length > 0, { timeout: 10_000, interval: 5 })
}

/** Does `meanwhile` when `verb` has done all that comes before it writes edges. */
const heldUp = async (schema: string, verb: () => Promise<unknown>, meanwhile: () => Promise<unknown>): Promise<void> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await client.query(`BEGIN; LOCK TABLE "${schema}".job_edges IN EXCLUSIVE MODE`)
    const doing = verb()
    await vi.waitUntil(async () => (await client.query(WAITS)).rows.length > 0, { timeout: 10_000, interval: 5 })
    await meanwhile()
    await client.query("COMMIT")
    await doing
  } finally {
    await client.end()
  }
}

describe("a job that waits for a slot", () => {
  const verbs: [string, (store: ServerStore, random: Random, id: string) => Promise<unknown>][] = [
    ["makes one that depends on it", (store, random, id) => store.createJobs([newJob(random, { dependencies: [id] })])],
    ["changes it", (store, _, id) => store.updateJob(id, { dependencies: [] })],
  ]
  it.each(verbs)("gets the one that is given back while another server %s", async (_, verb) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(3)
    const [one, two] = [await join(schema, random), await join(schema, seededRandom(4))]
    const [running, waiting] = [newJob(random, { concurrencyKey: "k" }), newJob(random, { concurrencyKey: "k" })]
    await one.store.createJobs([running, waiting])
    const { claims } = await one.turn([], 2)
    expect(idsOf(claims)).toEqual([running.id])
    await heldUp(
      schema,
      () => verb(two.store, random, waiting.id),
      () => one.turn([ended(claims[0]!, "success")], 0),
    )
    expect(idsOf((await one.turn([], 1)).claims)).toEqual([waiting.id])
  })
})

describe("a job that fails", () => {
  it("blocks all below it, though others add jobs there while it looks", async () => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(5)
    const [one, two] = [await join(schema, random), await join(schema, seededRandom(6))]
    const root = newJob(random)
    const below = [newJob(random, { dependencies: [root.id] }), newJob(random, { dependencies: [root.id] })]
    await one.store.createJobs([root, ...below])
    const { claims } = await one.turn([], 1)
    const late = newJob(random, { dependencies: [below[1]!.id] })
    const later = newJob(random, { dependencies: [late.id] })

    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query(`BEGIN; SELECT 1 FROM "${schema}".tasks WHERE path = '${below[0]!.id}' FOR UPDATE`)
    const ending = one.turn([ended(claims[0]!, "failed")], 0)
    await rowIsWaitedFor(client)
    await two.store.createJobs([late])
    await heldUp(
      schema,
      () => two.store.createJobs([later]),
      async () => {
        await client.query("COMMIT")
        await Promise.race([ending, rowIsWaitedFor(client)])
      },
    )
    await ending
    expect((await everyJob(one.store)).map(({ status }) => status).toSorted()).toEqual([
      ...Array.from({ length: 4 }, () => "BLOCKED"),
      "FAILED",
    ])
  })
})

describe("dependencies that two servers change at once", () => {
  it("never make a circle together", async () => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(9)
    const [one, two] = [await join(schema, random), await join(schema, seededRandom(10))]
    for (let round = 0; round < 8; round++) {
      const root = newJob(random)
      const [a, b] = [newJob(random, { dependencies: [root.id] }), newJob(random, { dependencies: [root.id] })]
      const [belowA, belowB] = [newJob(random, { dependencies: [a.id] }), newJob(random, { dependencies: [b.id] })]
      await one.store.createJobs([root, a, b, belowA, belowB])
      const answers = await Promise.all([
        one.store.updateJob(a.id, { dependencies: [belowB.id] }),
        two.store.updateJob(b.id, { dependencies: [belowA.id] }),
      ])
      expect(answers.filter((answer) => "rejected" in answer)).toEqual([expect.objectContaining({ rejected: "cycle" })])
    }
  })
})

describe("a queue with two servers", () => {
  it.each([
    ["once", false],
    ["again and again", true],
  ])("never runs more than its concurrency, set %s", async (_, again) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(7)
    const servers = [await join(schema, random), await join(schema, seededRandom(8))]
    const { store } = servers[0]!
    await store.createJobs(Array.from({ length: 60 }, () => newJob(random)))
    await store.putQueue("default", { concurrency: 3 })
    let running = 0
    let most = 0
    let done = 0
    const work = async ({ turn }: Server): Promise<void> => {
      while (done < 60) {
        const { claims } = await turn([], 4)
        most = Math.max(most, (running += claims.length))
        done += claims.length
        // The other server has time to take more than it may.
        for (let i = 0; i < 4; i++) await turn([], 0)
        running -= claims.length
        if (claims.length > 0)
          await turn(
            claims.map((claim) => ended(claim, "success")),
            0,
          )
      }
    }
    const set = async (): Promise<void> => {
      while (again && done < 60) await store.putQueue("default", { concurrency: 3, paused: false })
    }
    await Promise.all([...servers.map(work), set()])
    expect(most).toBeLessThanOrEqual(3)
    expect(await left(schema)).toEqual({ stops: 0, used: 0 })
    expect(await store.getQueue("default")).toMatchObject({ running: 0, ready: 0 })
  })
})
