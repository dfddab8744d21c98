// Requirements of functions, installed by pip from a folder of wheels.

import { mkdirSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { installVenv } from "../../../test/support/components/packages.ts"
import { buildWheel } from "../../../test/support/wheel.ts"
import { type FunctionFixture, functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { allLines } from "../conformance/fixture.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

const FUNCTIONS = `
import time
def greet(name):
    import greeting
    return greeting.text(name)
def place():
    import greeting, os
    return [os.getuid(), greeting.__file__]
def started(): return time.time() * 1000
`

/** Behaves like a python3 whose package python3-venv is not installed. */
const WITHOUT_ENSUREPIP = `#!/bin/sh
case "$2" in
*build_virtualenv.py)
  shift
  exec python3 -c 'import runpy, sys
sys.modules["ensurepip"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@" ;;
esac
exec python3 "$@"
`

let fixture: FunctionFixture
const { go, run, put } = launcherFor(python, () => fixture)
const offline = () => ({ PIP_NO_INDEX: "1", PIP_FIND_LINKS: join(fixture.folder, "wheels") })

beforeAll(async () => {
  await installVenv()
  fixture = await functionFixture(pythonRuntime, "native")
  put("functions.py", FUNCTIONS)
  mkdirSync(join(fixture.folder, "wheels"))
  const source = 'def text(name): return "Hello " + name\n'
  buildWheel(join(fixture.folder, "wheels"), { name: "greeting", version: "1.2", source })
}, 120_000)
afterAll(() => fixture.cleanup())

test("a wheel is installed once, and a warm task with it starts within 50 ms", { timeout: 120_000 }, async () => {
  const node = { requirements: ["greeting==1.2"] }
  const env = offline()
  expect(await run("greet", { input: "Ada", env, node })).toMatchObject({ state: "success", output: { inline: "Hello Ada" } })
  const times: number[] = []
  for (let i = 0; i < 20; i += 1) {
    const launchedAt = performance.timeOrigin + performance.now()
    const { output } = await run("started", { env, node })
    times.push((output as { inline: number }).inline - launchedAt)
  }
  const median = times.toSorted((a, b) => a - b)[10]!
  process.stderr.write(`a warm Python task with requirements starts after ${median.toFixed(1)} ms\n`)
  expect(median).toBeLessThan(50)
})

test("a line of the requirements may name the folder of wheels", { timeout: 120_000 }, async () => {
  put("requirements.txt", "--no-index\n--find-links wheels\ngreeting\n")
  const node = { requirements: "requirements.txt" }
  expect(await run("greet", { input: "Ada", node })).toMatchObject({ state: "success", output: { inline: "Hello Ada" } })
})

test("a package that pip does not find fails the task with pip's message", { timeout: 120_000 }, async () => {
  const failed = go("greet", { input: "Ada", env: offline(), node: { requirements: ["greeting==9"] } })
  const { state, error } = await failed.result
  expect([state, error]).toEqual(["failed", expect.stringContaining("No matching distribution found for greeting==9")])
  expect((await allLines(failed.log)).map(({ line }) => line).join("\n")).toContain("from versions: 1.2")
})

test("a Python without ensurepip is an error that says what to install", { timeout: 60_000 }, async () => {
  writeFileSync(join(fixture.folder, "bare-python"), WITHOUT_ENSUREPIP, { mode: 0o755 })
  const node = { interpreter: "./bare-python", requirements: ["greeting"] }
  const { state, error } = await run("greet", { input: "Ada", env: offline(), node })
  expect([state, error]).toEqual(["failed", expect.stringContaining("install the package python3-venv")])
})

test.runIf(process.geteuid?.() === 0)(
  "a task of another user installs as that user, and cannot change the result",
  { timeout: 120_000 },
  async () => {
    const node = { interpreter: "/usr/bin/python3", requirements: ["greeting"], runAs: "nobody" }
    const { state, output } = await run("place", { env: offline(), node })
    expect(state).toBe("success")
    const [user, file] = (output as { inline: [number, string] }).inline
    expect(user).not.toBe(0)
    expect([statSync(file).uid, statSync(dirname(file)).uid, statSync(file).mode & 0o022]).toEqual([0, 0, 0])
  },
)
