import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { FileObjectStore } from "../../objects/file/file.ts"
import { type ExecutorFixture, allLines, assignment, launch, realClock } from "../conformance/fixture.ts"
import { type FunctionFixture, functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { ProcessExecutor } from "../process/process.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

/** Creates a virtualenv; without pip, it takes a moment and no network. */
const createVirtualenv = (folder: string): string => {
  execFileSync("python3", ["-m", "venv", "--without-pip", folder])
  return folder
}

describe("the interpreter of a function", () => {
  let fixture: FunctionFixture
  const { run, put } = launcherFor(python, () => fixture)

  beforeAll(async () => {
    fixture = await functionFixture(pythonRuntime, "native")
    put("functions.py", "import os, sys\ndef where(): return [sys.prefix, os.environ.get('VIRTUAL_ENV'), os.getpid()]\n")
    for (const name of ["one", "two"]) createVirtualenv(join(fixture.folder, name))
  })
  afterAll(() => fixture.cleanup())

  const where = async (interpreter?: string): Promise<unknown[]> => {
    const node = interpreter === undefined ? {} : { interpreter }
    const { state, output, error } = await run("where", { node })
    expect([state, error]).toEqual(["success", undefined])
    return (output as { inline: unknown[] }).inline
  }

  test("runs it, and never in a worker of another interpreter", async () => {
    const [one, two] = ["one", "two"].map((name) => join(fixture.folder, name))
    const [prefix, variable, pid] = await where("one")
    expect([prefix, variable]).toEqual([one, one])
    expect(await where("one/bin/python3")).toEqual([one, one, expect.not.toSatisfy((other) => other === pid)])
    expect(await where("one")).toEqual([one, one, pid])
    expect((await where("two")).slice(0, 2)).toEqual([two, two])
    const [system, none, other] = await where()
    expect([one, two]).not.toContain(system)
    expect([none, other]).toEqual([null, expect.not.toSatisfy((each) => each === pid)])
  })

  test("is reported with its path when it is missing", async () => {
    const { state, error } = await run("where", { node: { interpreter: "three" } })
    const place = join(fixture.folder, "three")
    expect([state, error]).toEqual(["failed", expect.stringContaining(`and no virtualenv ${place} (interpreter: three)`)])
  })
})

describe("the interpreter of a command", () => {
  let fixture: ExecutorFixture

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "ork-command-"))
    const objects = new FileObjectStore(join(folder, "objects"))
    const executor = new ProcessExecutor({ objects, clock: realClock, helper: "auto", dataDir: join(folder, "data") })
    await executor.start()
    const cleanup = async (): Promise<void> => {
      await executor.stop()
      rmSync(folder, { recursive: true, force: true })
    }
    fixture = { executor, objects, folder, cleanup }
    createVirtualenv(join(folder, ".venv"))
  })
  afterAll(() => fixture.cleanup())

  const PRINT = "import os, sys; print(sys.prefix, os.environ.get('VIRTUAL_ENV'))"
  const printed = async (command: string[] | string, interpreter: string): Promise<string[]> => {
    const work = typeof command === "string" ? { shell: command } : { argv: command }
    const launched = launch(fixture, assignment(fixture.folder, work, { node: { interpreter } }))
    expect(await launched.result).toMatchObject({ state: "success" })
    return (await allLines(launched.log)).map(({ line }) => line)
  }

  test("is what python and python3 mean in it", async () => {
    const virtualenv = join(fixture.folder, ".venv")
    const expected = `${virtualenv} ${virtualenv}`
    expect(await printed(["python3", "-c", PRINT], ".venv")).toEqual([expected])
    expect(await printed(`python -c "${PRINT}"; python3 -c "${PRINT}"`, ".venv")).toEqual([expected, expected])
  })

  test("may be a program without a virtualenv", async () => {
    const program = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim()
    const prefix = execFileSync(program, ["-c", "import sys; print(sys.prefix)"], { encoding: "utf8" }).trim()
    const script = 'python -c "import sys; print(sys.prefix)"; readlink "$(command -v python3)"'
    expect(await printed(script, program)).toEqual([prefix, program])
  })

  test("is reported with its path when it is missing", async () => {
    const work = assignment(fixture.folder, { argv: ["true"] }, { node: { interpreter: "./gone" } })
    const { state, error } = await launch(fixture, work).result
    expect([state, error]).toEqual(["failed", expect.stringContaining(`there is no Python at ${fixture.folder}/gone`)])
  })
})
