// Jobs that are created in a transaction of the user, by a client of pg or by the SQL function alone.

import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { enforceRules } from "../../../../test/support/components/postgres-rules.ts"
import { newHolderId, uuidv7 } from "../../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { seededRandom } from "../../conformance/world.ts"
import { UnusableTransaction } from "../../contract/errors.ts"
import { JOB_DEFAULTS, type NewJob } from "../../contract/jobs.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
let schemas = 0
const random = seededRandom(7)

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

interface Opened {
  store: ServerStore
  schema: string
  client: pg.Client
}

const connect = async (url = database.url): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const open = async (): Promise<Opened> => {
  const schema = `jobs in ${++schemas}`
  const store = await openPostgres({ url: database.url, random, schema })
  onTestFinished(() => store.close())
  await store.migrate()
  await enforceRules(database.url, schema)
  return { store, schema, client: await connect() }
}

const newJob = (input: Partial<NewJob> = {}): NewJob => ({
  id: uuidv7(Date.now(), random.hex128()),
  name: "mail",
  queue: "default",
  payload: { to: "ada" },
  priority: 5,
  dependencies: [],
  retryPolicy: DEFAULT_JOB_RETRY,
  task: { executor: "function", function: "mail" },
  ...JOB_DEFAULTS,
  ...input,
})

const create = async ({ store, client }: Pick<Opened, "store" | "client">, ...jobs: NewJob[]) => {
  const created = await store.createJobsIn(client, jobs, "existing")
  if ("rejected" in created) throw new Error(created.rejected)
  return created
}

/** Claims everything that is ready for functions. Returns the ids of the jobs. */
const claim = async (store: ServerStore): Promise<string[]> => {
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  const batch = { holder, changes: [], work: { lanes: ["f:*|mail"], maxClaims: 100 }, gate: { lanes: ["g"], maxClaims: 0 } }
  const ids: string[] = []
  for (let turn = 0; turn < 3; turn++) {
    const { claims } = await store.advance(batch)
    ids.push(...claims.flatMap((each) => (each.kind === "job" ? each.job.id : [])))
  }
  return ids
}

describe("a job in a transaction", () => {
  it("exists after the commit, and wakes other stores then", async () => {
    const opened = await open()
    const { store, client } = opened
    let wakes = 0
    store.onWake(() => wakes++)
    await expect.poll(() => ask(database.url, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")).not.toEqual([])
    await client.query("BEGIN")
    const job = newJob()
    expect(await create(opened, job)).toMatchObject([{ id: job.id, created: true, status: "READY", payload: { to: "ada" } }])
    expect(await store.getJob(job.id)).toBeNull()
    expect(wakes).toBe(0)
    await client.query("COMMIT")
    expect(await store.getJob(job.id)).toMatchObject({ status: "READY", payload: { to: "ada" } })
    await expect.poll(() => wakes).toBeGreaterThan(0)
    expect(await claim(store)).toEqual([job.id])
  })

  it("never exists after a rollback", async () => {
    const opened = await open()
    const { store, client, schema } = opened
    await client.query("BEGIN")
    await create(opened, newJob(), newJob({ key: "k", expiresMs: 1000 }))
    await client.query("ROLLBACK")
    for (const table of ["jobs", "tasks", "ready_queue", "deadlines", "events", "limits"])
      expect(await ask(database.url, `SELECT * FROM "${schema}".${table}`)).toEqual([])
    expect(await claim(store)).toEqual([])
  })

  it("can be one of many in one transaction", async () => {
    const opened = await open()
    const jobs = Array.from({ length: 5 }, () => newJob())
    await opened.client.query("BEGIN")
    await create(opened, jobs[0]!, jobs[1]!)
    await create(opened, ...jobs.slice(2))
    await opened.client.query("COMMIT")
    expect((await claim(opened.store)).toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
  })

  it("leaves the settings of the client as they are", async () => {
    const opened = await open()
    const settings = `SELECT current_setting('search_path') AS path, current_setting('enable_seqscan') AS scan,
      current_setting('TimeZone') AS zone, current_setting('plan_cache_mode') AS mode`
    await opened.client.query("SET TimeZone TO 'Asia/Tokyo'; BEGIN")
    const { rows: before } = await opened.client.query<Record<string, string>>(settings)
    await create(opened, newJob())
    expect((await opened.client.query<Record<string, string>>(settings)).rows).toEqual(before)
    await opened.client.query("COMMIT")
  })
})

/** Returns the rows of a job in all tables, without its ids and instants. */
const rowsOf = async (schema: string, id: string): Promise<unknown> => {
  const of = (table: string, key: string): Promise<Record<string, unknown>[]> =>
    ask(
      database.url,
      `SELECT t.* FROM "${schema}".${table} t JOIN "${schema}".jobs j ON j.task_id = t.${key} WHERE j.id = $1`,
      [id],
    )
  const plain = (row: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        if (name === "id" || name === "path" || name === "task_id" || name === "limits")
          return [name, value === null ? null : "given"]
        if (value instanceof Date) return [name, "instant"]
        const isJson = ["settings", "task", "payload", "retry_policy"].includes(name) && typeof value === "string"
        return [name, isJson ? (JSON.parse(value) as unknown) : value]
      }),
    )
  const [tasks, jobs, deadlines] = [await of("tasks", "id"), await of("jobs", "task_id"), await of("deadlines", "task_id")]
  return { tasks: tasks.map(plain), jobs: jobs.map(plain), deadlines: deadlines.map(plain) }
}

const RETRY = { maxAttempts: 8, backoff: "exponential", baseDelayMs: 200, maxDelayMs: 600_000, jitter: true } as const

it.each<[string, Partial<NewJob>]>([
  ["nothing set", {}],
  ["a handler of its queue", { task: null }],
  ["another queue and priority", { queue: "mails", priority: 9 }],
  ["retries", { retry: RETRY }],
  ["a key", { key: "welcome:1" }],
  ["a long key", { key: "ü".repeat(600) }],
  ["a delay", { delayMs: 90_000 }],
  ["a time", { runAt: "2099-01-01T10:00:00.000Z" }],
  ["a time that has passed", { runAt: "2001-01-01T10:00:00.000Z" }],
  ["a timeout and an expiry", { timeoutMs: 1500, expiresMs: 3_600_000 }],
  ["a group", { group: "Grüße 🎉" }],
  ["any payload", { payload: { b: 1, a: ["\0", "\ud800", "'\\\"{}", null], nested: { z: 1.5 } } }],
  ["no payload", { payload: null }],
])("a job with %s is stored as one that is not created in a transaction", async (_, settings) => {
  const opened = await open()
  const { store, client, schema } = opened
  const [direct, inTransaction] = [newJob(settings), newJob(settings)]
  await store.createJobs([direct])
  const expected = await rowsOf(schema, direct.id)
  const readDirect = await store.getJob(direct.id)
  await ask(database.url, `DELETE FROM "${schema}".jobs`)
  await client.query("BEGIN")
  await create(opened, inTransaction)
  await client.query("COMMIT")
  expect(await rowsOf(schema, inTransaction.id)).toEqual(expected)
  const same = { id: "", row: 0, createdAt: "", updatedAt: "", availableAt: "" }
  expect({ ...(await store.getJob(inTransaction.id)), ...same }).toEqual({ ...readDirect, ...same })
})

it("the events of jobs are those of jobs that are not created in a transaction", async () => {
  const opened = await open()
  const { store, client } = opened
  const jobs = [newJob(), newJob({ name: "other", queue: "q", delayMs: 60_000 })]
  await client.query("BEGIN")
  await create(opened, ...jobs)
  await client.query("COMMIT")
  const read = async () => (await store.readEvents({ after: "0.0", limit: 10 })).events
  await expect.poll(read).toHaveLength(2)
  const events = await read()
  expect(events).toMatchObject([
    { type: "job", jobId: jobs[0]!.id, name: "mail", queue: "default", status: "READY" },
    { type: "job", jobId: jobs[1]!.id, name: "other", queue: "q", status: "READY" },
  ])
  expect(Date.parse(events[1]!.availableAt!) - Date.parse(events[1]!.at)).toBe(60_000)
  expect(events[0]).not.toHaveProperty("availableAt")
})

describe("limits of jobs in a transaction", () => {
  const limits = [{ key: "task:mail", cap: 2 }]

  it("do not make other transactions wait, and hold", async () => {
    const opened = await open()
    const other = await connect()
    await opened.client.query("BEGIN")
    await other.query("BEGIN")
    await create(opened, newJob({ limits }), newJob({ limits, concurrencyKey: "k" }))
    await create({ ...opened, client: other }, newJob({ limits }), newJob({ limits, concurrencyKey: "k" }))
    await opened.store.createJobs([newJob({ limits })])
    await other.query("COMMIT")
    await opened.client.query("COMMIT")
    expect(await claim(opened.store)).toHaveLength(2)
    const counts = await ask(database.url, `SELECT key, cap, used FROM "${opened.schema}".limits ORDER BY key`)
    expect(counts).toMatchObject([
      { key: "k:job:default:k", cap: 1 },
      { key: "k:limit:task:mail", cap: 2, used: 2 },
    ])
  })

  it("hold for jobs with a delay", async () => {
    const opened = await open()
    await opened.client.query("BEGIN")
    await create(opened, ...[1, 2, 3].map(() => newJob({ limits, delayMs: 1 })))
    await opened.client.query("COMMIT")
    await expect.poll(() => claim(opened.store)).toHaveLength(2)
  })
})

it("a process can set the rate of a queue while a transaction with jobs is open", async () => {
  const opened = await open()
  await opened.client.query("BEGIN")
  await create(opened, newJob())
  const rate = { limit: 5, periodMs: 1000 }
  expect(await opened.store.putQueue("mails", { rate })).toMatchObject({ name: "mails", rate })
  await opened.client.query("COMMIT")
})

describe("a key in a transaction", () => {
  it("finds the existing job, of this transaction or of one that has committed", async () => {
    const opened = await open()
    const [first, second] = [newJob({ key: "k" }), newJob({ key: "k", payload: 2 })]
    await opened.client.query("BEGIN")
    await create(opened, first)
    expect(await create(opened, second)).toMatchObject([{ id: first.id, created: false, payload: { to: "ada" } }])
    await opened.client.query("COMMIT")
    await opened.client.query("BEGIN")
    expect(await create(opened, newJob(), second)).toMatchObject([{ created: true }, { id: first.id, created: false }])
    expect(await opened.store.createJobsIn(opened.client, [second], "error")).toEqual({ rejected: "key_exists", id: first.id })
    await opened.client.query("ROLLBACK")
  })

  it("waits for a transaction that is creating it, and finds its job", async () => {
    const opened = await open()
    const other = await connect()
    const first = newJob({ key: "k" })
    await opened.client.query("BEGIN")
    await create(opened, first)
    await other.query("BEGIN")
    const waiting = create({ ...opened, client: other }, newJob({ key: "k" }))
    const blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%enqueue%'"
    await expect.poll(() => ask(database.url, blocked)).toHaveLength(1)
    await opened.client.query("COMMIT")
    expect(await waiting).toMatchObject([{ id: first.id, created: false }])
    await other.query("COMMIT")
  })
})

describe("a transaction that cannot be used is rejected, and nothing is written:", () => {
  const rejected = async ({ store, schema }: Opened, transaction: unknown, message: RegExp): Promise<void> => {
    const creating = store.createJobsIn(transaction, [newJob()], "existing")
    await expect(creating).rejects.toThrow(UnusableTransaction)
    await expect(creating).rejects.toThrow(message)
    expect(await ask(database.url, `SELECT * FROM "${schema}".jobs`)).toEqual([])
  }

  it("one of another database", async () => {
    const opened = await open()
    const other = await createDatabase()
    onTestFinished(() => other.drop())
    const empty = await connect(other.url)
    await empty.query("BEGIN")
    await rejected(opened, empty, /on a database without tables of Ork/)
    const store = await openPostgres({ url: other.url, random, schema: opened.schema })
    onTestFinished(() => store.close())
    await store.migrate()
    const client = await connect(other.url)
    await client.query("BEGIN")
    await rejected(opened, client, /on another database than the one that Ork.open has opened/)
    await client.query("ROLLBACK")
    expect(await ask(other.url, `SELECT * FROM "${opened.schema}".jobs`)).toEqual([])
  })

  it("a client or a pool without BEGIN", async () => {
    const opened = await open()
    await rejected(opened, opened.client, /call BEGIN on the client first/)
    const pool = new pg.Pool({ connectionString: database.url })
    onTestFinished(() => pool.end())
    await rejected(opened, pool, /A pool has no transaction/)
  })

  it("one that has failed, one that can only read, and one of a closed client", async () => {
    const opened = await open()
    await opened.client.query("BEGIN")
    await opened.client.query("SELECT 1/0").catch(() => {})
    await rejected(opened, opened.client, /a statement has failed/)
    await opened.client.query("ROLLBACK; BEGIN READ ONLY")
    await rejected(opened, opened.client, /can only read/)
    const closed = new pg.Client({ connectionString: database.url })
    await closed.connect()
    await closed.query("BEGIN")
    await closed.end()
    await rejected(opened, closed, /client is closed/)
  })

  it("something else", async () => {
    const opened = await open()
    await rejected(opened, {}, /pass a client of pg after BEGIN/)
    await rejected(opened, null, /pass a client of pg after BEGIN/)
  })
})

describe("the SQL function", () => {
  const enqueue = async ({ client, schema }: Opened, jobs: unknown): Promise<{ id: string; created: boolean }[]> => {
    const sql = `SELECT id, created FROM "${schema}".enqueue($1)`
    return (await client.query<{ id: string; created: boolean }>(sql, [JSON.stringify(jobs)])).rows
  }

  it("creates a job from its name and its function, or a list of jobs", async () => {
    const opened = await open()
    const [job] = await enqueue(opened, { name: "mail", function: "mail", payload: { to: "ada" } })
    expect(await opened.store.getJob(job!.id)).toMatchObject({
      name: "mail",
      queue: "default",
      payload: { to: "ada" },
      priority: 5,
      retry: null,
      task: { executor: "function", function: "mail" },
    })
    const list = await enqueue(opened, [
      { name: "a", idempotency_key: "1", delay: "1h30m", timeout: 2, expires: "2d", retry: { max_attempts: 5 } },
      { name: "a", idempotency_key: "1" },
    ])
    expect(list.map(({ created }) => created)).toEqual([true, false])
    expect(await opened.store.getJob(list[0]!.id)).toMatchObject({
      delayMs: 5_400_000,
      timeoutMs: 2000,
      expiresMs: 172_800_000,
      retry: { maxAttempts: 5, backoff: "exponential", baseDelayMs: 1000, maxDelayMs: 300_000, jitter: false },
      task: null,
    })
  })

  it("takes keys of 255 characters, whatever the characters, and functions with a version", async () => {
    const opened = await open()
    const texts = { idempotency_key: "😀".repeat(255), group: "ä".repeat(255), concurrency_key: "k".repeat(255) }
    const [job] = await enqueue(opened, { name: "mail", function: "mail@2", ...texts })
    expect(await opened.store.getJob(job!.id)).toMatchObject({
      task: { function: "mail@2" },
      key: texts.idempotency_key,
      group: texts.group,
    })
    await enqueue(opened, { name: "mail", idempotency_key: null, group: null, concurrency_key: null })
  })

  it.each<[string, unknown, RegExp]>([
    ["no object", 1, /job: must be an object/],
    ["no name", {}, /name: must be a text of 1 to 255 characters/],
    ["a name with a line break", { name: "a\nb" }, /name: must be a text of 1 to 255 characters without control characters/],
    ["a key that is too long", { name: "a", idempotency_key: "k".repeat(256) }, /idempotency_key: must be a text of 1 to 255/],
    ["a key that is a number", { name: "a", idempotency_key: 7 }, /idempotency_key: must be a text/],
    ["an empty group", { name: "a", group: "" }, /group: must be a text of 1 to 255 characters/],
    ["an invalid concurrency key", { name: "a", concurrency_key: "\t" }, /concurrency_key: must be a text/],
    ["an unknown field", { name: "a", nmae: 1 }, /nmae: is not a field of a job/],
    ["an invalid queue", { name: "a", queue: "my-mails" }, /queue: must be 1 to 64 letters, digits and underscores/],
    ["an invalid function", { name: "a", function: "a b" }, /function: must be at most 64 letters/],
    ["an invalid priority", { name: "a", priority: 11 }, /priority: must be a whole number from 1 to 10/],
    ["an invalid delay", { name: "a", delay: "soon" }, /delay: must be seconds or a text such as/],
    [
      "too many attempts",
      { name: "a", retry: { max_attempts: 101 } },
      /retry.max_attempts: must be a whole number from 1 to 100/,
    ],
    ["an unknown conflict", { name: "a", on_conflict: "replace" }, /on_conflict: must be existing or error/],
    ["a limit without a key", { name: "a", concurrency_limit: 2 }, /concurrency_limit: requires concurrency_key/],
  ])("rejects %s", async (_, job, message) => {
    const opened = await open()
    await expect(enqueue(opened, [{ name: "valid" }, job])).rejects.toThrow(message)
    expect(await ask(database.url, `SELECT * FROM "${opened.schema}".jobs`)).toEqual([])
  })
})
