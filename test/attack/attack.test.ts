// A slice of `npm run attack`: the quick attacks, on SQLite, as the user of the tests.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { expect, it } from "vitest"

it("holds against the quick attacks", { timeout: 300_000 }, async () => {
  const user = process.getuid?.() === 0 ? "root" : "nobody"
  const args = [join(import.meta.dirname, "main.ts"), "--store", "sqlite", "--user", user, "--quick"]
  const { code, stdout } = await new Promise<{ code: unknown; stdout: string }>((resolve) => {
    execFile(process.execPath, args, (error, output) => resolve({ code: error?.code ?? 0, stdout: output }))
  })
  expect(stdout).not.toContain("SUCCEEDED")
  expect(stdout).toMatch(/[1-9]\d attacks, 0 succeeded/)
  expect(code).toBe(0)
})
