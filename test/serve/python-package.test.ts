// The Python package `ork`, tested by Python itself against a server of the built command.

import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

it("its tests pass", { timeout: 120_000 }, async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  const env = {
    PATH: process.env["PATH"],
    PYTHONPATH: join(REPO, "python/lib"),
    PYTHONDONTWRITEBYTECODE: "1",
    ORK_URL: server.url,
    ORK_API_KEY: server.key,
  }
  const { stderr } = await promisify(execFile)("python3", ["-m", "unittest", "discover", "-s", "python/tests"], {
    cwd: REPO,
    env,
  })
  expect(stderr).toMatch(/Ran \d\d tests in .*\n\nOK\n$/)
})

it("it has the version of Ork", () => {
  const { version } = JSON.parse(readFileSync(join(REPO, "package.json"), "utf8")) as { version: string }
  expect(readFileSync(join(REPO, "python/pyproject.toml"), "utf8")).toContain(`version = "${version}"`)
})
