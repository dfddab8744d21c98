// The seeds' curl lines, run by a shell against a server started as they say.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { expect, it } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

const KEY = "airflow-mini-secret-key"

it("the flows of the seeds work as they print them", async () => {
  const server = await startServer([], { cwd: temporaryFolder(), env: { ORK_API_KEY: KEY } })
  const told = await new Promise<{ code: number | null; output: string }>((resolve) => {
    const env = { PATH: process.env["PATH"], BASE: server.url, ORK_API_KEY: KEY }
    const child = execFile("sh", [join(REPO, "test/serve/seeds.sh")], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    )
  })
  expect(told).toEqual({ code: 0, output: "seeds: all flows work\n" })
})
