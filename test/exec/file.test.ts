import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { assignment } from "../../src/executors/conformance/fixture.ts"
import { writeSpec } from "../../src/executors/exec/exec.ts"
import { FileObjectStore } from "../../src/objects/file/file.ts"
import { ork, temporaryFolder } from "../support/ork.ts"
import { execSuite } from "./suite.ts"

const root = await mkdtemp(join(tmpdir(), "ork-exec-objects-"))
afterAll(() => rm(root, { recursive: true, force: true }))

execSuite("the file store", async () => ({ objects: new FileObjectStore(root), address: `file:${root}`, env: {} }))

test("a full address of a spec is sufficient", async () => {
  const folder = temporaryFolder()
  const objects = new FileObjectStore(join(folder, "objects"))
  const work = assignment(folder, { shell: "pwd; exit 4" })
  const { key } = await writeSpec(objects, work)
  const { code, stderr } = await ork(["exec"], { cwd: folder, env: { TASK_SPEC_PATH: `file://${objects.localPath(key)}` } })
  expect(stderr).toBe("ork exec: failed: exit code 4\n")
  expect(code).toBe(4)
  expect(Buffer.from((await objects.get(`${work.prefix}log`))!).toString()).toBe(`${folder}\n`)
})

test("a missing or invalid spec is reported", async () => {
  const folder = temporaryFolder()
  const run = async (env: Record<string, string>) => (await ork(["exec"], { cwd: folder, env })).stderr
  expect(await run({})).toMatch(/name the spec to run: set TASK_SPEC_PATH/)
  expect(await run({ TASK_SPEC_PATH: "runs/x/spec.json" })).toMatch(/there is no spec at runs\/x\/spec.json/)
  await new FileObjectStore(join(folder, ".ork/objects")).put("runs/x/spec.json", '{"version":2}')
  expect(await run({ TASK_SPEC_PATH: "runs/x/spec.json" })).toMatch(/the spec at runs\/x\/spec.json cannot be parsed/)
})
