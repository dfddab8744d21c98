// A worker with two servers on one Postgres: when one is killed, the worker continues with the other.

import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { probe, startServer } from "../support/server.ts"
import { reached, startWorker, tasksOf } from "../support/worker.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

it("a worker continues with another server when its own is killed, and claims more tasks there", async () => {
  const objects = `file:${join(temporaryFolder(), "objects")}`
  const env = { ORK_DATABASE_URL: database.url, ORK_OBJECT_STORE: objects, ORK_API_KEY: "the key of both servers" }
  const start = () => startServer(["--no-worker"], { cwd: temporaryFolder(), env })
  const [doomed, survivor] = [await start(), await start()]
  const both = { url: `${doomed.url},${survivor.url}`, key: doomed.key }
  const worker = await startWorker(both, { name: "far", capacity: 10 })
  const folder = temporaryFolder()
  await doomed.deploy({
    name: "w",
    tasks: {
      t: {
        parallel: 10,
        command: `while [ ! -e ${folder}/go ]; do sleep 0.1; done; echo x >> ${folder}/$ORK_PARALLEL_INDEX; echo said`,
      },
      after: { depends_on: ["t"], command: "echo after" },
    },
  })
  const runId = await doomed.trigger("w")
  await reached(survivor, runId, "running", 10)
  doomed.process.kill("SIGKILL")
  await doomed.process.exit
  writeFileSync(join(folder, "go"), "")
  await probe(() => (Array.from({ length: 10 }, (_, i) => join(folder, String(i))).every(existsSync) ? true : null))
  expect((await survivor.reaches(runId, "success", "failed"))["status"]).toBe("success")
  for (const { attempt, worker: name } of await tasksOf(survivor, runId)) expect([attempt, name]).toEqual([1, "far"])
  expect((await survivor.call("GET", `/runs/${runId}/tasks/t/logs?index=3`)).text).toBe("said\n")
  worker.kill("SIGTERM")
  expect(await worker.exit).toEqual({ code: 0, signal: null })
})
