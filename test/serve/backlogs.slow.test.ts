// Large backlogs, and many servers that compete for one slot. Tasks write to a journal when they run.

import { join } from "node:path"
import { expect, it } from "vitest"
import { Journal } from "../campaigns/journal.ts"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"
import { probe, type Server, startServer } from "../support/server.ts"

const RUNS = 100_000
/** ORK_TEST_JOBS: a smaller number, for a machine that is busy. */
const JOBS = Number(process.env["ORK_TEST_JOBS"] ?? 1_000_000)
const BATCH = 1000
const START_MS = 2000

const KEY = "the key of all servers"

const start = async (env: Record<string, string>, args: string[] = []): Promise<Server> =>
  startServer(args, { cwd: temporaryFolder(), env: { ORK_LOG: "warn", ORK_API_KEY: KEY, ...env } })

const databaseOf = async (kind: string): Promise<Record<string, string>> =>
  kind === "postgres" ? { ORK_DATABASE_URL: (await createDatabase()).url } : {}

/** Sends `count` requests, `together` at a time. */
const repeatedly = async (count: number, together: number, send: () => Promise<unknown>): Promise<void> => {
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) await send()
  }
  await Promise.all(Array.from({ length: together }, lane))
}

const untilStarted = (journal: Journal, matches: (line: { run: string; task: string }) => boolean): Promise<true> =>
  probe(() => (journal.read().some(matches) ? true : null), 20)

it.each(["sqlite", "postgres"])(
  "on %s, a run starts within 2 s next to 100,000 queued runs of another workflow",
  async (kind) => {
    const journal = new Journal(join(temporaryFolder(), "journal"))
    const server = await start(await databaseOf(kind), ["--concurrency", "2"])
    await server.deploy({ name: "crowd", tasks: { a: { command: "sleep 0.5" } } })
    await server.deploy({ name: "other", tasks: { b: { command: journal.script({ ticks: 0 }) } } })
    await repeatedly(RUNS, 64, () => server.trigger("crowd"))
    for (let round = 0; round < 5; round++) {
      const begun = performance.now()
      const id = await server.trigger("other")
      await untilStarted(journal, ({ run }) => run === id)
      expect(performance.now() - begun).toBeLessThan(START_MS)
    }
  },
  900_000,
)

it.each(["sqlite", "postgres"])(
  `on %s, a job of another queue starts within 2 s next to ${JOBS} queued jobs`,
  async (kind) => {
    const journal = new Journal(join(temporaryFolder(), "journal"))
    const server = await start(await databaseOf(kind), ["--concurrency", "2"])
    const crowd = Array.from({ length: BATCH }, () => ({ name: "crowd", queue: "crowd", task: { command: "sleep 0.5" } }))
    await repeatedly(JOBS / BATCH, 2, async () => {
      const { status, text } = await server.call("POST", "/api/v1/jobs/batch", { jobs: crowd })
      if (status >= 300) throw new Error(text)
    })
    for (let round = 0; round < 5; round++) {
      const job = { name: `other-${round}`, queue: "other", task: { command: journal.script({ ticks: 0 }) } }
      const begun = performance.now()
      await server.call("POST", "/api/v1/jobs", job)
      await untilStarted(journal, ({ task }) => task === job.name)
      expect(performance.now() - begun).toBeLessThan(START_MS)
    }
    const { body } = await server.call("GET", "/api/v1/jobs?queue=crowd&limit=20")
    expect(body["items"]).toHaveLength(20)
  },
  1_800_000,
)

it("8 servers never run two tasks at once under a limit of 1, and do not leave it idle for a second", async () => {
  const tasks = 200
  const journal = new Journal(join(temporaryFolder(), "journal"))
  const env = { ORK_DATABASE_URL: (await createDatabase()).url, ORK_OBJECT_STORE: `file:${join(temporaryFolder(), "objects")}` }
  const servers = await Promise.all(Array.from({ length: 8 }, () => start(env)))
  const [server] = servers as [Server]
  await server.deploy({
    name: "one",
    tasks: { t: { command: journal.script({ ticks: 1 }), parallel: tasks, queue: "single" } },
  })
  await server.call("PUT", "/queues/single", { concurrency: 1 })
  const id = await server.trigger("one")
  await server.reaches(id, "success")
  const running = new Set<string>()
  let most = 0
  for (const { attemptId, phase } of journal.read()) {
    if (phase === "end") running.delete(attemptId)
    else running.add(attemptId)
    most = Math.max(most, running.size)
  }
  expect([most, new Set(journal.read().map(({ task }) => task)).size]).toEqual([1, tasks])
  const times: { started_at: string; finished_at: string; worker: string | null }[] = []
  for (let cursor = ""; ;) {
    const { body } = await server.call("GET", `/runs/${id}/tasks?limit=100${cursor}`)
    times.push(...(body["items"] as typeof times).filter(({ worker }) => worker !== null))
    if (body["next_cursor"] === null) break
    cursor = `&cursor=${encodeURIComponent(body["next_cursor"] as string)}`
  }
  const ordered = times.toSorted((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at))
  const gaps = ordered.slice(1).map(({ started_at }, i) => Date.parse(started_at) - Date.parse(ordered[i]!.finished_at))
  expect(Math.max(...gaps)).toBeLessThan(1000)
}, 300_000)
