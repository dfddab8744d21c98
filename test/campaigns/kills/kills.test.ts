// A slice of `npm run kills`.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { expect, test } from "vitest"

const run = (...args: string[]): Promise<{ code: number; stdout: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, "main.ts"), ...args], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout: stdout + stderr }),
    )
  })

test("on SQLite, nothing acknowledged is lost and nothing runs twice when servers and workers are killed", async () => {
  const { code, stdout } = await run("--kills", "10", "--store", "sqlite")
  expect(stdout).toMatch(/^\d+ kills, 0 violations$/m)
  expect(code).toBe(0)
}, 60_000)
