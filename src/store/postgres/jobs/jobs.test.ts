// Jobs and queues with several servers on one database: concurrent finishes, cancels and changes of dependencies.

import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { enforceRules } from "../../../../test/support/components/postgres-rules.ts"
import type { Change } from "../../../core/model/change.ts"
import { type HolderId, newHolderId, uuidv7 } from "../../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY, dependencyStatus, type JobStatus } from "../../../core/rules/jobs/jobs.ts"
import type { Random } from "../../../core/model/ports.ts"
import { seededRandom } from "../../conformance/world.ts"
import { JOB_DEFAULTS, type JobRow, type NewJob } from "../../contract/jobs.ts"
import type { AdvanceResult, Claim } from "../../contract/store.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import { Pipeline } from "../connection/pipeline.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

interface Server {
  store: ServerStore
  holder: HolderId
  turn(changes: Change[], claim: number): Promise<AdvanceResult>
}

const openServer = async (schema: string, random: Random): Promise<Server> => {
  const store = await openPostgres({ url: database.url, random, schema })
  onTestFinished(() => store.close())
  await store.migrate()
  await enforceRules(database.url, schema)
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  return {
    store,
    holder,
    turn: (changes, limit) =>
      store.advance({ holder, changes, work: { lanes: ["q:*"], maxClaims: limit }, gate: { lanes: ["g"], maxClaims: 0 } }),
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
  ...JOB_DEFAULTS,
  ...input,
})

const idsOf = (claims: readonly Claim[]): string[] => claims.flatMap((claim) => (claim.kind === "job" ? claim.job.id : []))

const finish = ({ row, attemptId }: Pick<Claim, "row" | "attemptId">, status: "success" | "failed"): Change => ({
  kind: "finish",
  row,
  attemptId,
  status,
  result: { state: status, startedAt: Date.now(), finishedAt: Date.now() },
})

const pick = (random: Random, n: number): number => Math.floor(random.next() * n)

const everyJob = async (store: ServerStore): Promise<JobRow[]> => store.searchJobs({ filter: {}, limit: 10_000 })

const LEFTOVERS = (schema: string): string =>
  `SELECT (SELECT count(*)::int FROM "${schema}".stop_requests) AS stops, (SELECT COALESCE(sum(used), 0)::int FROM "${schema}".limits) AS used`

const leftovers = async (schema: string): Promise<{ stops: number; used: number }> =>
  (await ask<{ stops: number; used: number }>(database.url, LEFTOVERS(schema)))[0]!

it("a job with the key of one that is deleted meanwhile is created", async () => {
  const schema = `jobs ${++schemas}`
  const random = seededRandom(1)
  const { store } = await openServer(schema, random)
  const old = newJob(random, { key: "k" })
  await store.createJobs([old])
  const client = new pg.Client({ connectionString: database.url, application_name: "deletes" })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query(`BEGIN; SET search_path = "${schema}"`)
  await client.query(`SELECT 1 FROM tasks WHERE path = '${old.id}' FOR UPDATE`)
  await client.query("DELETE FROM ready_queue; DELETE FROM jobs; DELETE FROM tasks")
  const next = newJob(random, { key: "k" })
  const creating = store.createJobs([next])
  const BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
  await vi.waitFor(async () => expect(await ask(database.url, BLOCKED)).not.toEqual([]))
  await client.query("COMMIT")
  expect(await creating).toEqual([expect.objectContaining({ id: next.id, created: true, status: "READY" })])
})

describe("jobs with two servers", () => {
  it.each([1, 2])("finish as the rules require under concurrent operations (seed %i)", async (seed) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(seed)
    const servers = [await openServer(schema, random), await openServer(schema, seededRandom(seed + 100))]
    const [first] = servers
    const ids: string[] = []
    const create = async (): Promise<void> => {
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
        if (pick(random, 4) === 0) await first!.store.editJob(ids[pick(random, ids.length)]!, { queue: "c" })
      }
    }
    let creating = true
    const work = async ({ turn }: Server, chance: Random): Promise<void> => {
      for (let idle = 0; creating || idle < 3;) {
        const isLast = !creating
        const { claims, more } = await turn([], 3)
        idle = isLast && claims.length === 0 && !more ? idle + 1 : 0
        const changes = claims.map((claim) => finish(claim, pick(chance, 8) === 0 ? "failed" : "success"))
        if (changes.length > 0) expect((await turn(changes, 0)).rejected).toEqual([])
      }
    }
    const working = servers.map((server, i) => work(server, seededRandom(seed + i)))
    await create().finally(() => (creating = false))
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
    expect(await leftovers(schema)).toEqual({ stops: 0, used: 0 })
  })
})

const WAITS_FOR_EDGES =
  "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'job_edges' AND NOT l.granted"
const WAITS_FOR_ROW = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"

const rowIsWaitedFor = async (client: pg.Client): Promise<void> => {
  await vi.waitUntil(async () => (await client.query(WAITS_FOR_ROW)).rows.length > 0, { timeout: 10_000, interval: 5 })
}

/** Runs `meanwhile` while `operation` waits for the lock of the edges, after all of its earlier steps. */
const whileBlocked = async (
  schema: string,
  operation: () => Promise<unknown>,
  meanwhile: () => Promise<unknown>,
): Promise<void> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await client.query(`BEGIN; LOCK TABLE "${schema}".job_edges IN EXCLUSIVE MODE`)
    const running = operation()
    await vi.waitUntil(async () => (await client.query(WAITS_FOR_EDGES)).rows.length > 0, { timeout: 10_000, interval: 5 })
    await meanwhile()
    await client.query("COMMIT")
    await running
  } finally {
    await client.end()
  }
}

describe("a job that waits for a slot", () => {
  const operations: [string, (store: ServerStore, random: Random, id: string) => Promise<unknown>][] = [
    ["creates a dependent of it", (store, random, id) => store.createJobs([newJob(random, { dependencies: [id] })])],
    ["changes it", (store, _, id) => store.editJob(id, { dependencies: [] })],
  ]
  it.each(operations)("gets the slot that is freed while another server %s", async (_, operation) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(3)
    const [one, two] = [await openServer(schema, random), await openServer(schema, seededRandom(4))]
    const [running, waiting] = [newJob(random, { concurrencyKey: "k" }), newJob(random, { concurrencyKey: "k" })]
    await one.store.createJobs([running, waiting])
    const { claims } = await one.turn([], 2)
    expect(idsOf(claims)).toEqual([running.id])
    await whileBlocked(
      schema,
      () => operation(two.store, random, waiting.id),
      () => one.turn([finish(claims[0]!, "success")], 0),
    )
    expect(idsOf((await one.turn([], 1)).claims)).toEqual([waiting.id])
  })
})

describe("a job that fails", () => {
  it("blocks all dependents, including those that are added while it locks them", async () => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(5)
    const [one, two] = [await openServer(schema, random), await openServer(schema, seededRandom(6))]
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
    const failing = one.turn([finish(claims[0]!, "failed")], 0)
    await rowIsWaitedFor(client)
    await two.store.createJobs([late])
    await whileBlocked(
      schema,
      () => two.store.createJobs([later]),
      async () => {
        await client.query("COMMIT")
        await Promise.race([failing, rowIsWaitedFor(client)])
      },
    )
    await failing
    expect((await everyJob(one.store)).map(({ status }) => status).toSorted()).toEqual([
      ...Array.from({ length: 4 }, () => "BLOCKED"),
      "FAILED",
    ])
  })
})

describe("dependencies that two servers change concurrently", () => {
  it("never form a cycle", async () => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(9)
    const [one, two] = [await openServer(schema, random), await openServer(schema, seededRandom(10))]
    for (let i = 0; i < 8; i++) {
      const root = newJob(random)
      const [a, b] = [newJob(random, { dependencies: [root.id] }), newJob(random, { dependencies: [root.id] })]
      const [belowA, belowB] = [newJob(random, { dependencies: [a.id] }), newJob(random, { dependencies: [b.id] })]
      await one.store.createJobs([root, a, b, belowA, belowB])
      const results = await Promise.all([
        one.store.editJob(a.id, { dependencies: [belowB.id] }),
        two.store.editJob(b.id, { dependencies: [belowA.id] }),
      ])
      expect(results.filter((result) => "rejected" in result)).toEqual([expect.objectContaining({ rejected: "cycle" })])
    }
  })
})

describe("a queue with two servers", () => {
  it.each([
    ["once", false],
    ["repeatedly", true],
  ])("never runs more than its concurrency, set %s", async (_, isRepeated) => {
    const schema = `jobs ${++schemas}`
    const random = seededRandom(7)
    const servers = [await openServer(schema, random), await openServer(schema, seededRandom(8))]
    const { store } = servers[0]!
    await store.createJobs(Array.from({ length: 60 }, () => newJob(random)))
    await store.putQueue("default", { concurrency: 3 })
    let running = 0
    let most = 0
    let finished = 0
    const work = async ({ turn }: Server): Promise<void> => {
      while (finished < 60) {
        const { claims } = await turn([], 4)
        most = Math.max(most, (running += claims.length))
        finished += claims.length
        // Gives the other server time to claim more than it may.
        for (let i = 0; i < 4; i++) await turn([], 0)
        running -= claims.length
        if (claims.length > 0)
          await turn(
            claims.map((claim) => finish(claim, "success")),
            0,
          )
      }
    }
    const set = async (): Promise<void> => {
      while (isRepeated && finished < 60) await store.putQueue("default", { concurrency: 3, paused: false })
    }
    await Promise.all([...servers.map(work), set()])
    expect(most).toBeLessThanOrEqual(3)
    expect(await leftovers(schema)).toEqual({ stops: 0, used: 0 })
    expect(await store.getQueue("default")).toMatchObject({ running: 0, ready: 0 })
  })
})

describe("round trips of jobs", () => {
  /** Statements by round trip. */
  const roundTripsOf = async (work: () => Promise<unknown>): Promise<string[][]> => {
    const add = vi.spyOn(Pipeline.prototype, "add")
    try {
      await work()
      const trips = new Map<unknown, string[]>()
      for (const [i, [{ name }]] of add.mock.calls.entries()) {
        const pipeline: unknown = add.mock.contexts[i]
        trips.set(pipeline, [...(trips.get(pipeline) ?? []), name])
      }
      return [...trips.values()]
    } finally {
      add.mockRestore()
    }
  }

  it("are two for a creation, and two for a turn that completes jobs of functions and claims the next", async () => {
    const random = seededRandom(9)
    const { store, holder } = await openServer(`jobs ${++schemas}`, random)
    const turn = (changes: Change[]): Promise<AdvanceResult> =>
      store.advance({ holder, changes, work: { lanes: ["f:*|f"], maxClaims: 1 }, gate: { lanes: ["g"], maxClaims: 0 } })
    const job = (): NewJob => newJob(random, { task: { executor: "function", function: "f" } })
    expect(await roundTripsOf(() => store.createJobs([job(), job(), job()]))).toEqual([
      ["begin", "queues_announce_writes", "jobs_insert"],
      ["events_append", "notify", "commit"],
    ])
    const { claims } = await turn([])
    let next: AdvanceResult["claims"] = []
    expect(await roundTripsOf(async () => (next = (await turn([finish(claims[0]!, "success")])).claims))).toEqual([
      [
        "begin",
        "queues_announce_writes",
        "jobs_lock",
        "finish_job_successes",
        "job_edges_lock_completed",
        "claim_head_work",
        "poll_pending_work",
      ],
      ["events_append", "job_claims_read", "commit"],
    ])
    expect(next).toHaveLength(1)
  })

  it("are two for jobs that a turn creates and claims; it wakes other stores only for those that it leaves", async () => {
    const random = seededRandom(10)
    const { store, turn } = await openServer(`jobs ${++schemas}`, random)
    await turn([], 1)
    let claims: AdvanceResult["claims"] = []
    const createAndClaim = (jobs: number) => async (): Promise<void> => {
      const creating = store.createJobs(Array.from({ length: jobs }, () => newJob(random)))
      claims = (await turn([], 1)).claims
      expect(await creating).toHaveLength(jobs)
    }
    const changes = ["begin", "queues_announce_writes", "jobs_insert", "claim_head_work", "poll_pending_work"]
    expect(await roundTripsOf(createAndClaim(1))).toEqual([changes, ["events_append", "job_claims_read", "commit"]])
    expect(claims).toHaveLength(1)
    expect((await roundTripsOf(createAndClaim(2))).at(-1)).toEqual(["events_append", "notify", "job_claims_read", "commit"])
    expect(claims).toHaveLength(1)
  })

  it("is created although another call of its tick fails", async () => {
    const random = seededRandom(11)
    const { store, turn } = await openServer(`jobs ${++schemas}`, random)
    const [first] = (await store.createJobs([newJob(random)])) as JobRow[]
    const { claims } = await turn([], 1)
    const bad = store.createJobs([newJob(random, { priority: 100_000 })])
    const good = store.createJobs([newJob(random)])
    const turning = turn(
      claims.map((claim) => finish(claim, "success")),
      1,
    )
    await expect(bad).rejects.toThrow("out of range")
    expect(await good).toHaveLength(1)
    expect((await turning).rejected).toEqual([])
    expect((await store.getJob(first!.id))!.status).toBe("COMPLETED")
  })
})
