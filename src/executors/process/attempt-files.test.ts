import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"
import { AttemptFiles } from "./attempt-files.ts"
import { currentOwner } from "../../objects/owner.ts"

const setup = async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "ork-files-"))
  const files = new AttemptFiles(dataDir)
  const cleanup = async () => {
    files.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  return { dataDir, files, cleanup }
}

test("folders are private to this user, and removed by a stop", async () => {
  const { dataDir, files, cleanup } = await setup()
  files.start()
  const small = files.paths("a", 10, undefined)
  const large = files.paths("b", 1_000_000, undefined)
  for (const path of [small.input, small.output, large.input]) expect((await stat(dirname(path))).mode & 0o077).toBe(0)
  expect(dirname(large.input)).toBe(dirname(large.output))
  expect(large.input.startsWith(dataDir)).toBe(true)
  files.stop()
  expect([small.input, small.output].map((path) => existsSync(dirname(path)))).toEqual([false, false])
  await cleanup()
})

test("two executors of one process do not share a folder", async () => {
  const { dataDir, files, cleanup } = await setup()
  const other = new AttemptFiles(dataDir)
  files.start()
  other.start()
  const left = other.paths("a", 10, undefined)
  files.stop()
  expect([left.input, left.output].map((path) => existsSync(dirname(path)))).toEqual([true, true])
  other.stop()
  await cleanup()
})

test("a task of another user has a folder that it may enter but not list", async () => {
  const { files, cleanup } = await setup()
  files.start()
  const { input, output } = files.paths("a", 10, "nobody")
  expect(dirname(input)).toBe(dirname(output))
  expect((await stat(dirname(input))).mode & 0o777).toBe(0o711)
  await cleanup()
})

test.runIf(process.platform === "linux")("a start removes the folders of dead processes only", async () => {
  const { dataDir, files, cleanup } = await setup()
  const [namespace] = currentOwner().split("-")
  const dead = `ork-io-${namespace}-999999999-1.abcd`
  const foreign = `ork-io-1${namespace}-999999999-1.abcd`
  for (const name of [dead, foreign]) {
    await mkdir(join(dataDir, "io", name), { recursive: true })
    await writeFile(join(dataDir, "io", name, "a.input.json"), "{}")
  }
  const spool = await mkdtemp(join(tmpdir(), `ork-log-${namespace}-999999999-1.`))
  files.start()
  expect(existsSync(spool), "the folder of a log that was being uploaded").toBe(false)
  const left = await readdir(join(dataDir, "io"))
  expect(left).not.toContain(dead)
  expect(left).toContain(foreign)
  expect(left).toHaveLength(2)
  await cleanup()
})
