// Two servers on one Postgres, of which one is paused for longer than its lease.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { processesOf } from "../support/ork-process.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { probe, startServer } from "../support/server.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const attemptOf = (pid: number): string | undefined => {
  try {
    return /\0ORK_ATTEMPT=(\d+)\0/.exec(`\0${readFileSync(`/proc/${pid}/environ`, "utf8")}`)?.[1]
  } catch {
    return undefined
  }
}

it("the tasks of a server that is paused end before another server runs them", async () => {
  const folder = temporaryFolder()
  const env = {
    ORK_DATABASE_URL: database.url,
    ORK_OBJECT_STORE: `file:${join(folder, "objects")}`,
    ORK_API_KEY: "the key of both servers",
  }
  const paused = await startServer([], { cwd: temporaryFolder(), env })
  await paused.deploy({ name: "long", tasks: { a: { command: `touch ${folder}/attempt-$ORK_ATTEMPT; sleep 300` } } })
  const id = await paused.trigger("long")
  const started = (attempt: number): Promise<true> =>
    probe(() => (existsSync(join(folder, `attempt-${attempt}`)) ? true : null), 50)
  const attempts = (): string[] => [...new Set(processesOf(id).flatMap((pid) => attemptOf(pid) ?? []))].toSorted()
  await started(1)
  const other = await startServer([], { cwd: temporaryFolder(), env })
  paused.process.kill("SIGSTOP")
  await started(2)
  expect(attempts()).toEqual(["2"])
  paused.process.kill("SIGCONT")
  await probe(async () => ((await paused.call("GET", "/ready")).status === 200 ? true : null), 100)
  expect(attempts()).toEqual(["2"])
  await other.call("POST", `/runs/${id}/cancel`)
  await other.reaches(id, "cancelled")
}, 120_000)
