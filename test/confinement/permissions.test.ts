// No other user can read what Ork stores.

import { chmodSync, existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { isRoot, readableByNobody } from "../support/users.ts"

const WORKFLOW = `name: files
tasks:
  a: { command: "head -c 200000 /dev/zero | tr '\\\\0' a | sed 's/.*/{\\"x\\":\\"&\\"}/' > $ORK_OUTPUT; echo log" }
  b: { depends_on: [a], command: "true" }
`

const modes = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => {
      const info = statSync(join(folder, name))
      return [name, (info.mode & 0o777).toString(8)]
    }),
  )

/** Files and folders that another user could use, if the data folder itself did not stop them. */
const open = (folder: string): string[] =>
  Object.entries(modes(folder)).flatMap(([name, mode]) =>
    mode.endsWith("00") || /^(work|upstream|bundles|io|python|pushed)(\/|$)/.test(name) ? [] : [`${name} ${mode}`],
  )

test("data folder, database, logs and outputs belong to their user alone", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "files.yaml"), WORKFLOW)
  expect((await orkRun(["files.yaml"], { cwd })).code).toBe(0)
  const folder = join(cwd, ".ork")
  expect((statSync(folder).mode & 0o777).toString(8)).toBe("700")
  expect(open(folder)).toEqual([])
  expect(Object.keys(modes(folder)).some((name) => name.endsWith("output.json"))).toBe(true)
  expect(Object.keys(modes(folder)).some((name) => name.endsWith("/log"))).toBe(true)
})

test("a folder of an older version is tightened at the start", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "files.yaml"), WORKFLOW)
  await orkRun(["files.yaml"], { cwd })
  const folder = join(cwd, ".ork")
  for (const name of ["", "ork.db", "objects"]) chmodSync(join(folder, name), name === "ork.db" ? 0o644 : 0o755)
  await orkRun(["files.yaml"], { cwd })
  expect((statSync(folder).mode & 0o777).toString(8)).toBe("700")
  expect(modes(folder)).toMatchObject({ "ork.db": "600", objects: "700" })
})

test("the files of a running server, with the write-ahead log of its database, belong to their user alone", async () => {
  const cwd = temporaryFolder()
  await startServer([], { cwd })
  const folder = join(cwd, ".ork")
  expect(existsSync(join(folder, "ork.db-wal"))).toBe(true)
  expect(open(folder)).toEqual([])
  if (isRoot) {
    chmodSync(cwd, 0o755)
    expect(readableByNobody(folder)).toEqual([])
  }
})

test.runIf(isRoot)(
  "a task with run_as gets its input, output, upstream files and working folder, and nothing else of Ork",
  async () => {
    const cwd = temporaryFolder()
    chmodSync(cwd, 0o755)
    const spy = `name: spy
tasks:
  big: { command: "head -c 100000 /dev/zero | tr '\\\\0' a | sed 's/.*/{\\"x\\":\\"&\\"}/' > $ORK_OUTPUT" }
  spy:
    depends_on: [big]
    foreach: [1, 2]
    run_as: nobody
    command: |
      set -e
      test "$(id -un)" = nobody
      test "$(wc -c < "$ORK_UPSTREAM/big.json")" -gt 100000
      ls .ork/objects .ork/ork.db .ork/admin.key 2>/dev/null && exit 1
      find .ork -readable 2>/dev/null | grep -v '^.ork/upstream/' && exit 1
      echo "{\\"item\\":$(sed 's/.*"item":\\([0-9]*\\).*/\\1/' "$ORK_INPUT")}" > "$ORK_OUTPUT"
`
    writeFileSync(join(cwd, "spy.yaml"), spy)
    const { code, run, stderr } = await orkRun(["spy.yaml"], { cwd })
    expect(stderr).toBe("")
    const logs = await ork(["logs", run.id, "spy", "--index", "0"], { cwd })
    expect(logs.stdout).toBe("")
    expect(code).toBe(0)
  },
)
