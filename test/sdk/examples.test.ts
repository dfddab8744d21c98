// The example programs of the SDK, with the built package, on both databases.

import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it, onTestFinished } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"
import { startServer } from "../support/server.ts"

/** Returns the address of a new database, which is dropped after the test. */
const databaseUrl = async (): Promise<string> => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  return database.url
}

const run = promisify(execFile)
const example = (file: string): string => join(REPO, "examples/sdk", file)

describe.each(["sqlite", "postgres"] as const)("on %s", (kind) => {
  it.each([
    ["jobs", "true false\ntrue\nHello ada@example.com\nsend-email failed: no such address\n"],
    ["testing", "discover 1, load 3, load 3, load 3, report 1\n"],
    ["order", '{"shipped":true,"item":"book","mail":"mail to ada@example.com"}\n'],
    ["graph", '2026_01_31_a_csv 2026_01_31_b_csv 2026_01_31_c_csv\n{"load":[{"table":"eu_1"},{"table":"eu_2"}]}\n'],
    ["transaction", "{ order: 'o1' }\n"],
  ])("examples/sdk/%s prints %j", async (name, expected) => {
    const database = kind === "sqlite" ? "sqlite:app.db" : await databaseUrl()
    const { stdout } = await run(process.execPath, [example(`${name}/main.ts`)], {
      cwd: temporaryFolder(),
      env: { ...process.env, DATABASE_URL: database },
    })
    expect(stdout).toBe(expected)
  })

  const isRun = kind === "sqlite" || process.env["ORK_TEST_ALL"] === "1"
  it.runIf(isRun)("examples/sdk/client uses a program through a server", async () => {
    const cwd = temporaryFolder()
    const database = kind === "sqlite" ? `sqlite:${join(cwd, ".ork/ork.db")}` : await databaseUrl()
    const server = await startServer([], { cwd, env: { ORK_DATABASE_URL: database } })
    const worker = spawn(process.execPath, [example("client/worker.ts")], {
      cwd,
      env: { ...process.env, DATABASE_URL: database },
      stdio: ["ignore", "pipe", "inherit"],
    })
    const ended = once(worker, "exit")
    await once(worker.stdout, "data")
    const { stdout } = await run(process.execPath, [example("client/main.ts")], {
      env: { ...process.env, ORK_URL: server.url, ORK_API_KEY: server.key },
    })
    expect(stdout).toBe('{"item":"book","cents":4200}\n')
    worker.kill("SIGTERM")
    expect(await ended).toEqual([0, null])
  })
})
