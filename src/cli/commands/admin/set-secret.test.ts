import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { runMain } from "../../testing/command-line.ts"

const setup = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-secrets-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

test("standard input is stored in the folder for secrets, and replaces an earlier value", async () => {
  const cwd = setup()
  const file = join(cwd, "secrets/API_TOKEN")
  for (const value of ["first value", "second"]) {
    const where = { cwd, env: { ORK_SECRETS_DIR: "secrets" }, input: `${value}\n` }
    const stored = await runMain(["secrets", "set", "API_TOKEN"], where)
    expect(stored).toEqual({ code: 0, stdout: `API_TOKEN is stored in ${join(cwd, "secrets")}\n`, stderr: "" })
    expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual([value, 0o600])
  }
  expect(readdirSync(join(cwd, "secrets"))).toEqual(["API_TOKEN"])
})

test.each([
  ["A B", "secrets", "x", '"A B" is not a valid name of a secret'],
  ["../A", "secrets", "x", '"../A" is not a valid name of a secret'],
  ["A", "", "x", "set secrets_dir in ork.yaml, or ORK_SECRETS_DIR"],
  ["A", "secrets", "\n", "the value of A is empty; nothing was stored"],
  ["A", "/dev/null/x", "x", "A could not be stored in /dev/null/x: "],
])("the name %j with the folder %j and the input %j is rejected", async (name, folder, input, message) => {
  const { code, stderr } = await runMain(["secrets", "set", name], { cwd: setup(), env: { ORK_SECRETS_DIR: folder }, input })
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
})
