// Two servers on one Postgres share slots: of a run, of a task, of a queue, and their own. A slot that one server frees is used by either
// within a second while tasks wait for it. The attempts' own times are the measure.

import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { type Server, startServer } from "../support/server.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const startTwo = async (): Promise<[Server, Server]> => {
  const objects = `file:${join(temporaryFolder(), "objects")}`
  const env = { ORK_DATABASE_URL: database.url, ORK_OBJECT_STORE: objects, ORK_API_KEY: "the key of both servers" }
  const start = (): Promise<Server> => startServer(["--concurrency", "4"], { cwd: temporaryFolder(), env })
  return [await start(), await start()]
}

const INSTANCES = 96
const work = { command: "sleep 0.2", parallel: INSTANCES }

/** Returns the longest time in milliseconds during which a slot was free although an instance was still to start. */
const longestFree = (tasks: { started_at: string; finished_at: string }[], slots: number): number => {
  const starts = tasks.map(({ started_at }) => Date.parse(started_at))
  const changes = [
    ...starts.map((at) => ({ at, by: 1 })),
    ...tasks.map(({ finished_at }) => ({ at: Date.parse(finished_at), by: -1 })),
  ].toSorted((a, b) => a.at - b.at)
  const lastStart = Math.max(...starts)
  let running = 0
  let freeSince: number | null = null
  let longest = 0
  for (const { at, by } of changes) {
    if (freeSince !== null && at <= lastStart) longest = Math.max(longest, at - freeSince)
    running += by
    freeSince = running >= slots ? null : (freeSince ?? at)
  }
  return longest
}

it.each([
  ["the servers' own slots", 8, { name: "plain", tasks: { work } }],
  ["the concurrency of a run", 6, { name: "run", concurrency: 6, tasks: { work } }],
  ["the concurrency of a task", 6, { name: "task", tasks: { work: { ...work, concurrency: 6 } } }],
  ["the concurrency of a queue", 6, { name: "queue", tasks: { work: { ...work, queue: "slow" } } }],
])(
  "two servers leave no slot of %s free for a second",
  async (_, slots, definition) => {
    const [one, other] = await startTwo()
    await one.call("PUT", "/queues/slow", { concurrency: 6 })
    await one.deploy(definition)
    const id = await one.trigger(definition.name)
    await other.reaches(id, "success")
    const { body } = await other.call("GET", `/runs/${id}/tasks?limit=100`)
    const tasks = (body["items"] as { started_at: string; finished_at: string; worker: string }[]).filter(
      ({ worker }) => worker !== null,
    )
    expect(tasks).toHaveLength(INSTANCES)
    expect(new Set(tasks.map(({ worker }) => worker)).size).toBe(2)
    expect(longestFree(tasks, slots)).toBeLessThan(1000)
  },
  60_000,
)
