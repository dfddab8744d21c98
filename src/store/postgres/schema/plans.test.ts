// How Postgres goes about what is asked of it: also when it plans at a bad time, with the lists beside `tasks` known to be empty, and
// when most of what there is has ended long ago.

import pg from "pg"
import { expect, it, onTestFinished, vi } from "vitest"
import { createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { newHolderId, newRunId, uuidv7 } from "../../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { workflow } from "../../../core/testing.ts"
import { seededRandom, WORK } from "../../conformance/world.ts"
import { JOB_DEFAULTS } from "../../contract/jobs.ts"
import { Pipeline } from "../connection/pipeline.ts"
import { openPostgres } from "../postgres.ts"
import { FREE } from "../claim/limits.ts"
import { FINISH_SUCCESSES } from "../advance/finish-successes.ts"
import { ADVANCE_IN_ONE_ROUND_TRIP } from "../advance/one-round-trip.ts"
import { applying, Connection, CONNECTION_SETTINGS, INDEXED_PLANS } from "../connection/connection.ts"

interface Plan {
  "Node Type": string
  "Relation Name"?: string
  "Index Name"?: string
  "Index Cond"?: string
  "TID Cond"?: string
  Plans?: Plan[]
}

const NOTHING = { lanes: [], maxClaims: 0 }

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

interface Sent {
  /** Statements of the loop and of writes, by name. */
  written: Map<string, string>
  /** Statements of reads that servers repeat every few seconds, by name. */
  read: Map<string, string>
}

/** Makes a store run the statements that an engine and a server repeat, and returns those that it sent. */
const statementsOf = async (database: TestDatabase): Promise<Sent> => {
  const random = seededRandom(1)
  const store = await openPostgres({ url: database.url, random, schema: "ork" })
  onTestFinished(() => store.close())
  await store.migrate()
  const add = vi.spyOn(Pipeline.prototype, "add")
  onTestFinished(() => add.mockRestore())

  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  const compiled = workflow({ a: {}, b: { after: ["a"] }, c: { concurrency: 1 }, d: { concurrency: 1 } })
  const { workflowId, versionId } = await store.putWorkflow({ compiled, hash: "1", source: "", deploy: true })
  const run = { workflowId, versionId, trigger: "manual", params: {}, priority: null, logicalDate: null } as const
  const id = newRunId(Date.now(), random.hex128())
  await store.createRuns([{ ...run, id, idempotencyKey: null, private: false, workingDir: null }])
  const turn = (changes: Parameters<typeof store.advance>[0]["changes"]) =>
    store.advance({ holder, changes, work: { lanes: [WORK], maxClaims: 10 }, gate: { lanes: ["g"], maxClaims: 10 } })
  const [first, second] = (await turn([])).claims
  const result = { startedAt: 1, finishedAt: 2 }
  const job = { name: "n", queue: "default", payload: null, priority: 5, dependencies: [], retryPolicy: DEFAULT_JOB_RETRY }
  const newJob = () => ({
    ...JOB_DEFAULTS,
    ...job,
    id: uuidv7(Date.now(), random.hex128()),
    task: { command: { shell: "true" } },
  })
  await turn([
    { ...first!, kind: "finish", status: "success", result: { ...result, state: "success" } },
    { ...second!, kind: "finish", status: "failed", result: { ...result, state: "failed", error: "no" } },
  ])
  const failing = newJob()
  await store.createJobs([newJob(), failing, { ...newJob(), dependencies: [failing.id] }])
  const jobs = (await turn([])).claims.filter((claim) => claim.kind === "job")
  const failed = jobs.find(({ job: { id: jobId } }) => jobId === failing.id)!
  const succeeded = jobs.find((claim) => claim !== failed)!
  await turn([{ ...succeeded, kind: "finish", status: "success", result: { ...result, state: "success" } }])
  await turn([{ ...failed, kind: "finish", status: "failed", result: { ...result, state: "failed", error: "no" } }])
  await store.requestCancel(id, "cancel")
  await turn([])
  await store.renewLease(holder, 60_000)
  await store.reapHolders(10)
  await store.deregisterHolder(holder)
  const written = named(add.mock.calls)
  for (const { name, text } of [FINISH_SUCCESSES, ADVANCE_IN_ONE_ROUND_TRIP]) written.set(name, text)
  add.mockClear()
  await store.listInFlight(holder)
  await store.listHolders()
  await store.listAbandonedRuns(10)
  await store.listQueues()
  await store.slotUsers("q:default", 10)
  await store.stats()
  return { written, read: named(add.mock.calls) }
}

const named = (calls: readonly Parameters<Pipeline["add"]>[]): Map<string, string> =>
  new Map(
    calls.filter(([{ text }]) => !/^(BEGIN|COMMIT|ROLLBACK|DISCARD|LOCK)/.test(text)).map(([{ name, text }]) => [name, text]),
  )

/** Plans the statements and returns the scans of their plans. */
const scansOf = async (
  client: pg.Client,
  statements: ReadonlyMap<string, string>,
  settings: Readonly<Record<string, string>> = INDEXED_PLANS,
): Promise<(Plan & { of: string })[]> => {
  await client.query(
    `RESET ALL; ${applying({ ...CONNECTION_SETTINGS("ork"), plan_cache_mode: "force_generic_plan", ...settings }, { local: false })}`,
  )
  const scans: (Plan & { of: string })[] = []
  for (const [name, text] of statements) {
    const values = Array.from(
      { length: Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n))) },
      () => "NULL",
    )
    await client.query(`PREPARE one AS ${text}`)
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE one${values.length === 0 ? "" : ` (${values.join()})`}`,
    )
    await client.query("DEALLOCATE one")
    for (const node of nodesOf(rows[0]!["QUERY PLAN"][0].Plan))
      if (node["Node Type"].endsWith("Scan")) scans.push({ ...node, of: name })
  }
  return scans
}

/** Returns whether the scan has neither an index condition nor a ctid condition. */
const isWhole = (node: Plan): boolean => node["Index Cond"] === undefined && node["TID Cond"] === undefined

const shown = ({ of, ...node }: Plan & { of: string }): string => `${of}: ${node["Node Type"]} of ${node["Relation Name"]}`

const connect = async (database: TestDatabase): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

it("statements of the loop read the tables ready_queue and in_flight by an index", async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const { written: statements } = await statementsOf(database)
  expect([...statements.keys()]).toEqual(
    expect.arrayContaining([
      "claim_head_work",
      "claim_limited",
      "finish_successes",
      "finish_attempts",
      "cancel_pending",
      "limits_free_for_claim",
      "finish_job_successes",
      "job_edges_lock",
      "job_edges_lock_completed",
      "job_edges_block",
    ]),
  )
  const client = await connect(database)
  for (const table of ["ready_queue", "in_flight"]) {
    await client.query(`DELETE FROM ork.${table}`)
    await client.query(`VACUUM ANALYZE ork.${table}`)
  }
  const loops = new Map([...statements].filter(([name]) => !/^(holders?|limit|queues?|stats)_/.test(name)))
  const whole = (await scansOf(client, loops)).filter(
    (node) => ["ready_queue", "in_flight"].includes(node["Relation Name"] ?? "") && isWhole(node),
  )
  expect(whole.map(shown)).toEqual([])
})

it("statements that servers repeat do not scan finished rows", async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const statements = await statementsOf(database)
  const client = await connect(database)
  await client.query(`SET search_path TO ork;
    INSERT INTO runs (id, workflow_id, version_id, status, tasks_total, tasks_success, trigger, params, priority, private, created_at)
      SELECT gen_random_uuid(), 1, 1, 'success', 10, 10, 'manual', '{}', 5, false, now() FROM generate_series(1, 2000);
    INSERT INTO tasks (run_seq, node, path, kind, status, upstream_pending, lane, priority, workflow_id, attempt_id, attempt, last_attempt_state)
      SELECT seq, n, '', 'task', 'success', 0, 'q:default', 5, 1, gen_random_uuid(), 1, 'success'
      FROM runs, generate_series(0, 9) n WHERE status = 'success'`)
  for (const table of ["tasks", "runs"]) await client.query(`VACUUM ANALYZE ork.${table}`)
  const { rows } = await client.query<{ name: string }>(
    "SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indpred IS NOT NULL",
  )
  // Partial indexes contain no finished rows.
  const partial = new Set(rows.map(({ name }) => name.replace(/^.*\./, "")))
  const scans = [...(await scansOf(client, statements.written)), ...(await scansOf(client, statements.read, {}))]
  const whole = scans.filter(
    (node) =>
      ["tasks", "runs"].includes(node["Relation Name"] ?? "") && isWhole(node) && !partial.has(node["Index Name"] ?? ""),
  )
  expect(whole.map(shown)).toEqual([])
})

it("a freed slot unparks one row, also with a plan that was made while there were no tasks", async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  await statementsOf(database)
  const client = await connect(database)
  await client.query("SET search_path TO ork; SET session_replication_role TO replica; DELETE FROM tasks; DELETE FROM limits")
  await client.query("VACUUM ANALYZE tasks")
  await client.query(`${applying(INDEXED_PLANS, { local: false })}; PREPARE free AS ${FREE.text}`)
  await client.query("EXECUTE free ('{1}', '{1}', '{1}')")
  await client.query(`INSERT INTO limits (id, key, cap, used) OVERRIDING SYSTEM VALUE VALUES (1, 'k', 1, 1);
    INSERT INTO tasks (run_seq, node, path, kind, status, upstream_pending, lane, priority, workflow_id, limits, parked)
      SELECT 1, 0, n::text, 'task', 'pending', 0, 'q:default', 5, 1, '{1}', 1 FROM generate_series(1, 4) n`)
  const { rows } = await client.query("EXECUTE free ('{1}', '{1}', '{1}')")
  expect(rows).toEqual([{ unparked: 1, missed: [] }])
})

it("reaping locks only rows of dead holders", async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const statements = await statementsOf(database)
  const reaping = new Map(
    [...statements.written].filter(([name]) => name === "holders_release_gates" || name === "holders_release_resumed"),
  )
  expect(reaping.size).toBe(2)
  const scans = await scansOf(await connect(database), reaping)
  const wholeLocks = scans.filter(
    (node) => node["Node Type"] === "Subquery Scan" && nodesOf(node).some((one) => one["Node Type"] === "LockRows"),
  )
  expect(wholeLocks.map(shown)).toEqual([])
})

it("a connection discards its plans after 16 and 64 transactions, and after a while", async () => {
  const database = await createDatabase()
  const store = await openPostgres({ url: database.url, random: seededRandom(2) })
  onTestFinished(async () => {
    await store.close()
    await database.drop()
  })
  await store.migrate()
  const add = vi.spyOn(Pipeline.prototype, "add")
  onTestFinished(() => add.mockRestore())
  const turns: number[] = []
  for (let turn = 0; turn < 80; turn++) {
    await store.advance({ holder: newHolderId(1, "0".repeat(32)), changes: [], work: NOTHING, gate: NOTHING })
    if (add.mock.calls.some(([statement]) => statement.name === "discard_plans")) turns.push(turn)
    add.mockClear()
  }
  expect(turns).toEqual([15, 63])
  const now = performance.now()
  vi.spyOn(performance, "now").mockReturnValue(now + 20_000)
  onTestFinished(() => void vi.restoreAllMocks())
  await store.advance({ holder: newHolderId(1, "0".repeat(32)), changes: [], work: NOTHING, gate: NOTHING })
  expect(add.mock.calls.some(([statement]) => statement.name === "discard_plans")).toBe(true)
})

it("a connection discards the plans of an empty table when the table has grown", async () => {
  const database = await createDatabase()
  const random = seededRandom(3)
  const store = await openPostgres({ url: database.url, random, schema: "ork" })
  onTestFinished(async () => {
    await store.close()
    await database.drop()
  })
  await store.migrate()
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  const client = await connect(database)
  await client.query("VACUUM ork.tasks")
  const turn = () => store.advance({ holder, changes: [], work: { lanes: [WORK], maxClaims: 1 }, gate: NOTHING })
  for (let idle = 0; idle < 16; idle++) await turn()
  const compiled = workflow(Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`t${i}`, {}])))
  const { workflowId, versionId } = await store.putWorkflow({ compiled, hash: "1", source: "", deploy: true })
  const run = { workflowId, versionId, trigger: "manual", params: {}, priority: null, logicalDate: null } as const
  const id = newRunId(Date.now(), random.hex128())
  await store.createRuns([{ ...run, id, idempotencyKey: null, private: false, workingDir: null }])
  const add = vi.spyOn(Pipeline.prototype, "add")
  onTestFinished(() => add.mockRestore())
  const discards: number[] = []
  for (let busy = 0; busy < 4; busy++) {
    await turn()
    discards.push(add.mock.calls.filter(([statement]) => statement.name === "discard_plans").length)
    add.mockClear()
  }
  expect(discards).toEqual([0, 1, 0, 0])
})

it.each([
  [63, 0],
  [64, 1],
])("a turn with %i claims plans the statements of %i other connections", async (tasks, others) => {
  const database = await createDatabase()
  const random = seededRandom(4)
  const store = await openPostgres({ url: database.url, random, schema: "ork" })
  onTestFinished(async () => {
    await store.close()
    await database.drop()
  })
  await store.migrate()
  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  const compiled = workflow(Object.fromEntries(Array.from({ length: tasks }, (_, i) => [`t${i}`, {}])))
  const { workflowId, versionId } = await store.putWorkflow({ compiled, hash: "1", source: "", deploy: true })
  const run = { workflowId, versionId, trigger: "manual", params: {}, priority: null, logicalDate: null } as const
  const id = newRunId(Date.now(), random.hex128())
  await store.createRuns([{ ...run, id, idempotencyKey: null, private: false, workingDir: null }])
  const add = vi.spyOn(Pipeline.prototype, "add")
  onTestFinished(() => add.mockRestore())
  const open = vi.spyOn(Connection, "open")
  onTestFinished(() => open.mockRestore())
  const claim = { lanes: [WORK], maxClaims: 100 }
  expect((await store.advance({ holder, changes: [], work: claim, gate: NOTHING })).claims).toHaveLength(tasks)
  expect(open).toHaveBeenCalledTimes(1 + others)
  const planned = () => add.mock.calls.filter(([{ name }]) => name === "finish_successes").length
  await vi.waitFor(() => expect(planned()).toBe(others))
})
