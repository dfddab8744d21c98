// The cost of a search for jobs of each status, while most jobs have another one.

import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { JOB_STATUSES, type JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { seededRandom } from "../../conformance/world.ts"
import type { JobFilter } from "../../contract/jobs.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import { Pipeline } from "../connection/pipeline.ts"
import { openPostgres } from "../postgres.ts"

const MASS = 20_000
/** Rows of `jobs` that a page of 20 may read: pages of some priorities and statuses, and the jobs of a second. */
const MOST_READ = 2_500

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const ROW_STATUS = {
  PENDING: "pending",
  READY: "pending",
  RUNNING: "running",
  COMPLETED: "success",
  FAILED: "failed",
  BLOCKED: "skipped",
} as const satisfies Record<JobStatus, string>

/** Inserts jobs of this status, 1 ms apart, that end at this time. The trigger on updates sees those that complete. */
const insert = async (schema: string, status: JobStatus, count: number, end: string): Promise<void> => {
  await ask(
    database.url,
    `SET search_path TO "${schema}";
     WITH row AS (
       INSERT INTO tasks (run_seq, node, path, kind, status, upstream_pending, lane, priority, workflow_id, holder)
       SELECT 0, 0, gen_random_uuid()::text, 'task', '${ROW_STATUS[status]}', ${status === "PENDING" ? 1 : 0}, 'h:default', 5, 0,
         ${status === "RUNNING" ? "gen_random_uuid()" : "NULL"} FROM generate_series(1, ${count}) RETURNING *
     ), ready AS (
       INSERT INTO ready_queue (lane, priority, workflow_id, run_seq, id)
       SELECT lane, priority, workflow_id, run_seq, id FROM row WHERE '${status}' = 'READY'
     ), in_flight AS (
       INSERT INTO in_flight (run_seq, id) SELECT run_seq, id FROM row WHERE '${status}' = 'RUNNING'
     )
     INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, retry_policy, payload)
     SELECT id, path::uuid, 'resize', 'default', priority, '${status === "COMPLETED" || status === "RUNNING" ? "READY" : status}',
       '${end}'::timestamptz - row_number() OVER () * interval '1 ms', now(), '{}', '{}' FROM row;
     UPDATE jobs j SET status = 'COMPLETED' FROM tasks t WHERE t.id = j.task_id AND t.status = 'success' AND j.status = 'READY';
     ANALYZE jobs; ANALYZE tasks; ANALYZE completed_seconds`,
  )
}

interface Plan {
  "Relation Name"?: string
  "Actual Rows": number
  "Actual Loops": number
  "Rows Removed by Filter"?: number
  Plans?: Plan[]
}

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

/** Returns the number of rows of `jobs` that the statements of a search read, and how many jobs it found. */
const search = async (store: ServerStore, client: pg.Client, filter: JobFilter): Promise<{ read: number; found: number }> => {
  const add = vi.spyOn(Pipeline.prototype, "add")
  const found = await store.searchJobs({ filter, limit: 20 })
  const calls = add.mock.calls.filter(([{ name }]) => name.startsWith("jobs_search"))
  add.mockRestore()
  let read = 0
  for (const [{ text }, values] of calls) {
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [
      ...values,
    ])
    for (const node of nodesOf(rows[0]!["QUERY PLAN"][0].Plan))
      if (node["Relation Name"] === "jobs")
        read += (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"]
  }
  return { read, found: found.length }
}

it("the last job of a second takes the mark of its completed jobs along", async () => {
  const store = await openPostgres({ url: database.url, random: seededRandom(1), schema: "marks" })
  onTestFinished(() => store.close())
  await store.migrate()
  await insert("marks", "COMPLETED", 3, "2026-03-01T00:00:00.003Z")
  const marks = () => ask(database.url, "SELECT list, priority FROM marks.completed_seconds ORDER BY list, second")
  expect(await marks()).toEqual([
    { list: "n:resize", priority: 5 },
    { list: "q:default", priority: 5 },
  ])
  const jobs = await store.searchJobs({ filter: { status: "COMPLETED" }, limit: 9 })
  expect(jobs).toHaveLength(3)
  for (const { id } of jobs.slice(1)) await store.deleteJob(id)
  expect(await marks()).toHaveLength(2)
  await store.deleteJob(jobs[0]!.id)
  expect(await marks()).toEqual([])
})

describe("a search for jobs reads a page, not the jobs of another status", () => {
  it.each(JOB_STATUSES)("while most jobs are %s, and newer", async (mass) => {
    const schema = `search_${mass.toLowerCase()}`
    const store = await openPostgres({ url: database.url, random: seededRandom(1), schema })
    onTestFinished(() => store.close())
    await store.migrate()
    await insert(schema, mass, MASS, "2026-03-02T00:00:00Z")
    for (const status of JOB_STATUSES) if (status !== mass) await insert(schema, status, 30, "2026-03-01T00:00:00Z")
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query(`SET search_path TO "${schema}"; SET TimeZone TO 'UTC'`)
    for (const status of [undefined, ...JOB_STATUSES])
      for (const list of [{}, { queue: "default" }, { name: "resize" }]) {
        const filter: JobFilter = { ...list, ...(status !== undefined && { status }) }
        const { read, found } = await search(store, client, filter)
        expect({ filter, found }).toEqual({ filter, found: 20 })
        // A search for RUNNING jobs reads all of them.
        const most = status === "RUNNING" && mass === "RUNNING" ? 2 * MASS : MOST_READ
        expect(read, JSON.stringify(filter)).toBeLessThan(most)
      }
  })
})
