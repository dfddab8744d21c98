// The example programs of the SDK, with the built package, on both databases.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it, onTestFinished } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/postgres.ts"

/** Returns the address of a new database, which is dropped after the test. */
const databaseUrl = async (): Promise<string> => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  return database.url
}

const run = promisify(execFile)

describe.each(["sqlite", "postgres"] as const)("on %s", (kind) => {
  it.each([
    ["jobs.ts", "Hello Ada\n"],
    ["testing.ts", "discover 1, load 3, load 3, load 3, report 1\n"],
    ["order.ts", '{"shipped":true,"item":"book"}\n'],
    ["graph.ts", '2026_01_31_a_csv 2026_01_31_b_csv 2026_01_31_c_csv\n{"load":[{"table":"eu_1"},{"table":"eu_2"}]}\n'],
    ["transaction.ts", "{ order: 'o1' }\n"],
  ])("examples/sdk/%s prints %j", async (file, expected) => {
    const database = kind === "sqlite" ? "sqlite:app.db" : await databaseUrl()
    const { stdout } = await run(process.execPath, [join(REPO, "examples/sdk", file)], {
      cwd: temporaryFolder(),
      env: { ...process.env, DATABASE_URL: database },
    })
    expect(stdout).toBe(expected)
  })
})
