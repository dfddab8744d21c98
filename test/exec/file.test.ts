import { readFileSync, writeFileSync } from "node:fs"
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

test("a function is called with --file, like a command: input, output, streams and exit code", async () => {
  const cwd = temporaryFolder()
  const file = (name: string, text: string): void => writeFileSync(join(cwd, name), text)
  file(
    "load.py",
    "import sys\ndef main(input, ctx):\n  print(ctx.task_name)\n  print('careful', file=sys.stderr)\n  return input\ndef bad(): raise ValueError('no rows')\n",
  )
  file("load.ts", "export const twice = ({ n }: { n: number }) => ({ n: 2 * n })\n")
  file("input.json", '{"n":21}')
  const env = { ORK_INPUT: join(cwd, "input.json"), ORK_OUTPUT: join(cwd, "output.json"), ORK_TASK_NAME: "load" }
  const exec = (...args: string[]) => ork(["exec", "--file", ...args], { cwd, env })
  const output = (): unknown => JSON.parse(readFileSync(env.ORK_OUTPUT, "utf8"))
  expect(await exec("load.py")).toEqual({ code: 0, stdout: "load\n", stderr: "careful\n" })
  expect(output()).toEqual({ n: 21 })
  expect((await exec("load.ts", "--function", "twice")).code).toBe(0)
  expect(output()).toEqual({ n: 42 })
  const failed = await exec("load.py", "--function", "bad")
  expect([failed.code, failed.stderr]).toEqual([
    1,
    expect.stringMatching(/ValueError: no rows[^]*ork exec: failed: no rows\n$/),
  ])
  expect((await exec("load.sh")).stderr).toMatch(/is not a file with functions/)
})
