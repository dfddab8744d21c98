// Requirements of functions, installed by a `uv` that counts its calls and needs no network. requirements.slow.test.ts uses pip.

import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import { type FunctionFixture, functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { allLines, marked } from "../conformance/fixture.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

/** Installs a module for each line of the requirements; `missing` fails, and `slow` never ends. */
const UV = `#!/bin/sh
for last; do :; done
echo "$1" >> "$0.calls"
if [ "$1" = venv ]; then exec python3 -m venv --without-pip "$last"; fi
folder=$("$5" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
while read -r name; do
  if [ "$name" = missing ]; then echo "Resolving" && echo "error: missing was not found in the index" >&2 && exit 1; fi
  if [ "$name" = slow ]; then touch "$0.slow"; exec sleep 4711; fi
  echo "name = '$name'" > "$folder/$name.py"
done < "$last"
`

const FUNCTIONS = `
import importlib, os, sys
def load(name): return [importlib.import_module(name).name, os.getpid(), sys.prefix]
`

let fixture: FunctionFixture
let tools: string
const { go, run, put } = launcherFor(python, () => fixture)

beforeAll(async () => {
  tools = mkdtempSync(join(tmpdir(), "ork-uv-"))
  writeFileSync(join(tools, "uv"), UV)
  chmodSync(tools, 0o777)
  chmodSync(join(tools, "uv"), 0o755)
  vi.stubEnv("PATH", `${tools}:${process.env["PATH"]}`)
  fixture = await functionFixture(pythonRuntime, "native")
  put("functions.py", FUNCTIONS)
})
afterAll(async () => {
  await fixture.cleanup()
  rmSync(tools, { recursive: true, force: true })
})

const calls = (): string[] => {
  const file = join(tools, "uv.calls")
  const text = existsSync(file) ? readFileSync(file, "utf8") : ""
  rmSync(file, { force: true })
  return text.trim().split("\n")
}

const load = async (name: string, requirements: string | string[]): Promise<unknown[]> => {
  const { state, output, error } = await run("load", { input: name, node: { requirements } })
  expect([state, error]).toEqual(["success", undefined])
  return (output as { inline: unknown[] }).inline
}

test("many tasks that start at once share one installation and warm workers", async () => {
  const first = await Promise.all(Array.from({ length: 5 }, () => load("apple", ["apple"])))
  expect(new Set(first.map(([name]) => name))).toEqual(new Set(["apple"]))
  expect(calls()).toEqual(["venv", "pip"])
  put("requirements.txt", "# fruit\napple\n")
  const seen = new Set(first.map((each) => each[1]))
  let prefix: unknown
  // A worker is free a moment after its result has arrived.
  await expect
    .poll(async () => {
      const [, pid, used] = await load("apple", "requirements.txt")
      prefix = used
      return seen.has(pid) || (seen.add(pid), false)
    })
    .toBe(true)
  expect(calls()).toEqual([""])
  const other = await load("banana", ["banana"])
  expect([other[0], other[2] === prefix]).toEqual(["banana", false])
  expect((await run("load", { input: "banana", node: { requirements: ["apple"] } })).error).toContain(
    "No module named 'banana'",
  )
})

test("a failed installation fails the task with the message, its log has everything, and nothing of it is kept", async () => {
  calls()
  const failed = go("load", { input: "missing", node: { requirements: ["cherry", "missing"] } })
  expect(await failed.result).toMatchObject({
    state: "failed",
    error: "could not start: its requirements could not be installed: error: missing was not found in the index",
  })
  expect((await allLines(failed.log)).map(({ line }) => line)).toEqual([
    "Resolving",
    "error: missing was not found in the index",
  ])
  expect((await run("load", { input: "missing", node: { requirements: ["cherry", "missing"] } })).state).toBe("failed")
  expect(calls()).toEqual(["venv", "pip", "venv", "pip"])
})

test("a cancelled task stops the installation that nobody else waits for", async () => {
  const slow = go("load", { input: "slow", node: { requirements: ["slow"] } })
  await vi.waitUntil(() => existsSync(join(tools, "uv.slow")), { timeout: 30_000 })
  slow.stop("cancel")
  expect(await slow.result).toMatchObject({ state: "cancelled", startedAt: null })
  expect(marked("sleep\x004711")).toEqual([])
  expect(globSync("data/python/virtualenvs/build-*", { cwd: fixture.folder })).toEqual([])
})

test("a file of requirements that does not exist is an error that names it", async () => {
  const { state, error } = await run("load", { input: "x", node: { requirements: "gone.txt" } })
  expect([state, error]).toEqual(["failed", expect.stringContaining(`the file ${fixture.folder}/gone.txt cannot be read`)])
})
