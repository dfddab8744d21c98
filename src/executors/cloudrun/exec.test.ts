// Jobs whose container runs `ork exec`, here as a process from its sources.

import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { createBundle, storeBundle } from "../../objects/bundles/bundles.ts"
import { allLines } from "../conformance/fixture.ts"
import { type CloudRunFixture, setup } from "./testing/fixture.ts"

const MAIN = join(import.meta.dirname, "../../main.ts")
/** Speed of the clock. It is low because heartbeats are written by the real clock. */
const SLOWER = 2

const setupExec = async () => {
  const fixture: CloudRunFixture = await setup(SLOWER)
  // Set by Secret Manager on a real job.
  const env = [{ name: "ORK_EXEC_SECRET_TOKEN", value: "hunter2" }]
  fixture.fake.addJob("ork", [process.execPath, MAIN], { args: ["exec"], env })
  const run = (shell: string, more: Parameters<CloudRunFixture["run"]>[1] = {}, by?: Parameters<CloudRunFixture["run"]>[2]) =>
    fixture.run("", { command: { shell }, ...more, fields: { job: "ork" }, cloudrun: { exec: true } }, by)
  return { ...fixture, run }
}

test("with ork exec, a task has input, output and log, and the request contains no secret", async () => {
  const { fake, run } = await setupExec()
  const more = { input: { n: 41 }, env: { TOKEN: "hunter2", PLAIN: "yes" }, secrets: ["hunter2"] }
  const running = run('cat; echo " $PLAIN $TOKEN"; echo \'{"n": 42}\' > "$ORK_OUTPUT"', more)
  const end = await running.result
  expect(end).toMatchObject({ state: "success", output: { inline: { n: 42 } } })
  expect(end.externalId).toMatch(/jobs\/ork\/executions\/ork-00001$/)
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(['{"n":41} yes ***'])
  expect(JSON.stringify(fake.executions[0]?.overrides)).not.toContain("hunter2")
})

test("a cancel reaches the task through ork exec", async () => {
  const { fake, run } = await setupExec()
  const running = run("echo begun; sleep 60")
  await running.line("begun")
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  expect(fake.count("Executions.CancelExecution")).toBe(1)
})

test("the next server continues to watch ork exec", async () => {
  const { fake, run, newExecutor, folder } = await setupExec()
  const script = "echo begun; while [ ! -e $DIR/go ]; do sleep 0.05; done; echo '[5]'"
  const env = { DIR: folder }
  const first = run(script, { attemptId: "a1", env })
  await first.line("begun")
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  const again = run(script, { attemptId: "a1", env }, newExecutor())
  await again.started
  await writeFile(join(folder, "go"), "")
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [5] } })
  expect(fake.executions).toHaveLength(1)
})

test("a job that does not run ork exec fails with a hint", async () => {
  const { fake, run } = await setupExec()
  fake.addJob("ork", ["true"])
  expect(await run("true").result).toMatchObject({
    state: "failed",
    error: "its container ended without writing a result: does it run `ork exec`, on the same object store?",
  })
})

test("a secret that the job does not have is named in the error", async () => {
  const { fake, run } = await setupExec()
  fake.addJob("ork", [process.execPath, MAIN], { args: ["exec"] })
  expect(await run("true", { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }).result).toMatchObject({
    state: "failed",
    error: expect.stringContaining("ORK_EXEC_SECRET_TOKEN is not set") as string,
  })
})

test("a function of the bundle runs in ork exec without cloudrun.exec, and its errors keep their meaning", async () => {
  const fixture = await setup(SLOWER)
  fixture.fake.addJob("ork", [process.execPath, MAIN], { args: ["exec"] })
  const code =
    "import ork\ndef load(input):\n  print('loading')\n  return {'n': input['n'] + 1}\ndef bad(): raise ork.Terminal('no')\n"
  const bundle = createBundle([{ path: "tasks/load.py", bytes: Buffer.from(code), executable: false }])
  await storeBundle(fixture.objects, bundle)
  const call = (name: string) =>
    fixture.run("", {
      command: null,
      input: { n: 41 },
      code: { folder: "/nowhere", bundle: bundle.hash },
      node: { file: "tasks/load.py", function: name },
      fields: { job: "ork" },
    })
  const running = call("load")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: { n: 42 } } })
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["loading"])
  expect(await call("bad").result).toMatchObject({ state: "failed", error: "no", retryable: false })
})
