// `ork migrate --to`: moves a SQLite database to Postgres.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { containing } from "../support/matchers.ts"
import { startOrk } from "../support/ork-process.ts"
import { ork, temporaryFolder } from "../support/ork.ts"
import { ask, createDatabase } from "../support/components/postgres.ts"
import { startServer } from "../support/server.ts"

const KEY = { ORK_API_KEY: "a-key-of-many-letters" }

const setup = async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const cwd = temporaryFolder()
  const schemas = (): Promise<object[]> =>
    ask(
      database.url,
      "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname NOT IN ('public', 'information_schema')",
    )
  return { cwd, to: database.url, schemas }
}

const FLOW = {
  name: "flow",
  schedule: "0 3 * * *",
  tasks: {
    first: { command: "echo hello" },
    wait: { depends_on: ["first"], command: "while [ ! -e $HOME/go ]; do sleep 0.05; done" },
  },
}

test("history, schedules and live runs continue on Postgres, and the old file is rejected", async () => {
  const { cwd, to } = await setup()
  const env = { ...KEY, HOME: cwd }
  const server = await startServer([], { cwd, env })
  await server.deploy(FLOW)
  const live = await server.trigger("flow")
  const isWaiting = async (): Promise<unknown> => (await server.call("GET", `/runs/${live}/tasks/wait`)).body["status"]
  await expect.poll(isWaiting).toBe("running")
  expect(await ork(["migrate", "--to", to], { cwd, env })).toMatchObject({
    code: 1,
    stderr: containing("another `ork serve` uses"),
  })
  const schedules = await server.call("GET", "/schedules")
  server.process.kill("SIGKILL")
  await server.process.exit

  const moved = await ork(["migrate", "--to", to], { cwd, env })
  expect(moved).toMatchObject({ code: 0, stderr: "", stdout: containing("1 run, 0 jobs") })
  expect(moved.stdout).toContain("read back and compared")
  expect(await ork(["serve", "--port", "0"], { cwd, env })).toMatchObject({
    code: 1,
    stderr: containing("it was moved to postgres://"),
  })

  const next = await startServer([], { cwd, env: { ...env, ORK_DATABASE_URL: to } })
  expect((await next.call("GET", "/schedules")).body).toEqual(schedules.body)
  expect((await next.call("GET", `/runs/${live}/tasks/first/logs`)).text).toBe("hello\n")
  writeFileSync(join(cwd, "go"), "")
  expect(await next.reaches(live, "success")).toMatchObject({ tasks: { success: 2 } })
})

test("a target that is in use, an unreachable one and a running `ork run` are rejected, and nothing changes", async () => {
  const { cwd, to, schemas } = await setup()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: sleep 1000 }\n")
  const run = startOrk(["run", "flow.yaml", "--json"], { cwd })
  await run.printed(/"task":"a".*"running"/)
  expect(await ork(["migrate", "--to", to], { cwd })).toMatchObject({
    code: 1,
    stderr: containing("an `ork run` is using the database"),
  })
  run.kill("SIGKILL")
  await run.exit
  const bad = await ork(["migrate", "--to", "postgres://x@127.0.0.1:1/none"], { cwd })
  expect([bad.code, bad.stderr]).toEqual([1, containing("is not available")])
  expect(await schemas()).toEqual([])

  expect(await ork(["migrate"], { cwd, env: { ORK_DATABASE_URL: to } })).toMatchObject({ code: 0 })
  const used = await ork(["migrate", "--to", to], { cwd })
  expect([used.code, used.stderr]).toEqual([1, containing("already has tables of Ork")])
  expect((await ork(["runs"], { cwd })).stdout).toContain("running")
  expect(await ork(["migrate", "--to", "sqlite:x"], { cwd })).toMatchObject({ code: 2 })
})
