// Two servers on one Postgres: they share tasks and schedules, see each other's events, and one continues when the other is killed.

import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { probe, type Server, startServer } from "../support/server.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const RUNS = 200

const startTwo = async (): Promise<[Server, Server]> => {
  const objects = `file:${join(temporaryFolder(), "objects")}`
  const env = { ORK_DATABASE_URL: database.url, ORK_OBJECT_STORE: objects, ORK_API_KEY: "the key of both servers" }
  const first = await startServer([], { cwd: temporaryFolder(), env })
  return [first, await startServer([], { cwd: temporaryFolder(), env })]
}

/** Ids and statuses of the runs of a workflow. */
const runsOf = async (server: Server, workflow: string): Promise<Map<string, string>> => {
  const found = new Map<string, string>()
  for (let cursor: string | null = null; ;) {
    const page = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`
    const { body } = await server.call("GET", `/runs?workflow=${workflow}&limit=100${page}`)
    for (const run of body["items"] as { id: string; status: string }[]) found.set(run.id, run.status)
    cursor = body["next_cursor"] as string | null
    if (cursor === null) return found
  }
}

describe("two servers on one Postgres", () => {
  it("finish all of 200 runs when one of them is killed", async () => {
    const [doomed, survivor] = await startTwo()
    await doomed.deploy({
      name: "chain",
      tasks: {
        a: { command: "sleep 0.05" },
        b: { depends_on: ["a"], command: "sleep 0.05" },
        c: { depends_on: ["b"], command: "true" },
      },
    })
    await Promise.all(Array.from({ length: RUNS }, (_, i) => (i % 2 === 0 ? doomed : survivor).trigger("chain")))
    const ended = (runs: Map<string, string>): number => [...runs.values()].filter((status) => status === "success").length
    await probe(async () => (ended(await runsOf(survivor, "chain")) >= RUNS / 10 ? true : null))
    doomed.process.kill("SIGKILL")
    await doomed.process.exit
    const runs = await probe(async () => {
      const found = await runsOf(survivor, "chain")
      return [...found.values()].some((status) => status === "running" || status === "pending") ? null : found
    }, 250)
    expect([runs.size, ended(runs)]).toEqual([RUNS, RUNS])
  }, 180_000)

  it("show each other's events", async () => {
    const [one, other] = await startTwo()
    await one.deploy({ name: "shown", tasks: { a: { command: "true" } } })
    const stream = await fetch(`${other.url}/events`, { headers: { "x-api-key": other.key, accept: "text/event-stream" } })
    const id = await one.trigger("shown")
    let text = ""
    for await (const part of stream.body!) {
      text += Buffer.from(part).toString()
      if (text.includes(id) && /"status":"success"/.test(text)) break
    }
    expect(text).toContain(`"run_id":"${id}"`)
  })

  it("fire each tick once", async () => {
    const [one, other] = await startTwo()
    await one.deploy({
      name: "ticking",
      schedule: { cron: "* * * * * *", overlap: "allow" },
      tasks: { a: { command: "true" } },
    })
    const ticks = await probe(async () => {
      const { body } = await other.call("GET", "/runs?workflow=ticking&limit=100")
      const found = (body["items"] as { logical_date: string }[]).map((run) => run.logical_date)
      return found.length >= 4 ? found : null
    }, 250)
    expect(new Set(ticks).size).toBe(ticks.length)
  })

  it("both start, and each lists both", async () => {
    const [one, other] = await startTwo()
    for (const server of [one, other]) {
      const { body } = await server.call("GET", "/workers")
      const alive = (body["items"] as { kind: string; dead?: boolean }[]).filter(({ kind }) => kind === "server")
      expect(alive.length).toBeGreaterThanOrEqual(2)
    }
  })
})
