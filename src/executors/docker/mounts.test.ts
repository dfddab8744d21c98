import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { DEFAULT_POLICY } from "../../core/settings/policy.ts"
import { assignment, type Overrides } from "../conformance/fixture.ts"
import { mountsOf } from "./mounts.ts"

const setup = () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "ork-mounts-")))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const run = join(root, "work", "run-1")
  mkdirSync(join(run, "in"), { recursive: true })
  mkdirSync(join(root, "secret"))
  const sources = async (mounts: string[], rest: Overrides = {}): Promise<string[]> => {
    const policy = DEFAULT_POLICY.fields
    const work = assignment(run, null, { policy, fields: { docker: { mounts } }, ...rest })
    return (await mountsOf(work, join(root, "attempt"))).map(({ Source }) => Source)
  }
  return { root, run, sources }
}

const forbidden = (path: string) => `the policy of this server does not allow the mount of ${path} (policy.mounts in ork.yaml)`

test("the folder of the run, and folders and links in it, may be mounted", async () => {
  const { root, run, sources } = setup()
  symlinkSync("in", join(run, "link"))
  expect(await sources(["./in:/a", "link/:/b", "cache:/c"])).toEqual([
    join(root, "attempt"),
    run,
    join(run, "in"),
    join(run, "in"),
    "cache",
  ])
})

test.each(["/", "/etc", ".."])("the working folder %s may not be mounted, nor what is relative to it", async (workingDir) => {
  const { root, run, sources } = setup()
  const resolved = workingDir === ".." ? join(root, "work") : workingDir
  await expect(sources([], { workingDir: resolved })).rejects.toThrow(forbidden(resolved))
  const relative = sources([], { workingDir: root, fields: { docker: { work: false, mounts: ["./secret:/x"] } } })
  await expect(relative).rejects.toThrow(forbidden(join(root, "secret")))
  expect(await sources([], { workingDir: join(run, "in") })).toContain(join(run, "in"))
})

test("a link that a task has created in the folder of the run does not lead out of it", async () => {
  const { root, run, sources } = setup()
  symlinkSync(join(root, "secret"), join(run, "out"))
  await expect(sources(["./out:/x"])).rejects.toThrow(forbidden(join(root, "secret")))
  await expect(sources([], { workingDir: join(run, "out") })).rejects.toThrow(forbidden(join(root, "secret")))
  symlinkSync(join(root, "later"), join(run, "dangling"))
  await expect(sources(["./dangling:/x"])).rejects.toThrow("is a link to a path that does not exist")
})

test("a folder of a run or of upstream outputs that a task has replaced by a link is not mounted", async () => {
  const { root, run, sources } = setup()
  const upstreamDir = join(root, "upstream")
  symlinkSync(join(root, "secret"), upstreamDir)
  await expect(sources([], { upstreamDir })).rejects.toThrow(forbidden(join(root, "secret")))
  renameSync(run, `${run}.moved`)
  symlinkSync(root, run)
  await expect(sources([])).rejects.toThrow(forbidden(root))
})

test("paths that the policy lists may be mounted, also through a link and if they exist only on the machine of the engine", async () => {
  const { root, run, sources } = setup()
  symlinkSync(join(root, "secret"), join(root, "data"))
  const policy = { ...DEFAULT_POLICY.fields, mounts: [join(root, "data"), "/no/such/folder"] }
  expect(await sources([`${root}/data/x:/x`, "/no/such/folder/y:/y"], { policy })).toEqual([
    join(root, "attempt"),
    run,
    join(root, "secret/x"),
    "/no/such/folder/y",
  ])
})
