// Runs the curl commands of the first specifications by a shell, on both stores.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"
import { startServer } from "../support/server.ts"

const KEY = "airflow-mini-secret-key"

const databaseOf = async (store: string): Promise<Record<string, string>> => {
  if (store === "SQLite") return {}
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  return { ORK_DATABASE_URL: database.url }
}

it.each(["SQLite", "Postgres"])("the curl commands of the specifications work on %s", async (store) => {
  const env = { ORK_API_KEY: KEY, ...(await databaseOf(store)) }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  const result = await new Promise<{ code: number | null; output: string }>((resolve) => {
    const shell = { PATH: process.env["PATH"], BASE: server.url, ORK_API_KEY: KEY }
    const child = execFile("sh", [join(REPO, "test/serve/curl-flows.sh")], { env: shell }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    )
  })
  expect(result).toEqual({ code: 0, output: "curl-flows: all flows work\n" })
})
