import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { markUsed, removeUnused } from "./unused-virtualenvs.ts"

const DAY_MS = 86_400_000

const setup = () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-virtualenvs-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const add = (name: string, unusedDays: number): string => {
    const path = join(folder, name)
    mkdirSync(join(path, "env/bin"), { recursive: true })
    writeFileSync(join(path, "complete"), "")
    const at = (Date.now() - unusedDays * DAY_MS) / 1000
    utimesSync(join(path, "complete"), at, at)
    return path
  }
  return { folder, add }
}

test.runIf(process.platform === "linux")("a virtualenv is removed when no task has used it for 30 days", async () => {
  const { folder, add } = setup()
  const [recent, old, used] = [add("recent", 29), add("old", 31), add("used", 31)]
  const half = join(folder, "half-built")
  mkdirSync(half)
  await markUsed(used)
  await removeUnused(folder)
  expect([recent, old, used, half].map((path) => existsSync(path))).toEqual([true, false, true, true])
})

test.runIf(process.platform === "linux")("a virtualenv that a process uses is kept", async () => {
  const { folder, add } = setup()
  const [byCommand, byVariable] = [add("by-command", 31), add("by-variable", 31)]
  const first = spawn("sleep", ["60"], { argv0: join(byCommand, "env/bin/python") })
  const second = spawn("sleep", ["60"], { env: { PATH: process.env["PATH"], VIRTUAL_ENV: join(byVariable, "env") } })
  const processes = [first, second]
  await Promise.all(processes.map((each) => once(each, "spawn")))
  await removeUnused(folder)
  expect([existsSync(byCommand), existsSync(byVariable)]).toEqual([true, true])
  const exits = processes.map((each) => once(each, "exit"))
  for (const each of processes) each.kill("SIGKILL")
  await Promise.all(exits)
  await removeUnused(folder)
  expect([existsSync(byCommand), existsSync(byVariable)]).toEqual([false, false])
})

test("the last use is written at most once a day", async () => {
  const { add } = setup()
  const path = add("a", 0.5)
  const { mtimeMs } = statSync(join(path, "complete"))
  await markUsed(path)
  expect(statSync(join(path, "complete")).mtimeMs).toBe(mtimeMs)
})
