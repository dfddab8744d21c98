import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import type { Clock } from "../core/model/ports.ts"
import { DiskUsage } from "./disk-usage.ts"

const setup = () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-usage-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, "runs/a"), { recursive: true })
  writeFileSync(join(folder, "runs/a/log"), "12345")
  writeFileSync(join(folder, "top"), "123")
  let now = 0
  return { folder, clock: { now: () => now, monotonic: () => now } as Clock, pass: (ms: number) => void (now += ms) }
}

test("sizes of all files are summed, and read again after ten minutes", async () => {
  const { folder, clock, pass } = setup()
  const usage = new DiskUsage(folder, clock)
  expect(await usage.bytes()).toBe(8)
  writeFileSync(join(folder, "more"), "1")
  expect(await usage.bytes()).toBe(8)
  pass(600_000)
  expect(await usage.bytes()).toBe(9)
})

test("the usage of a remote store or a very large folder is not known; that of a missing folder is 0", async () => {
  const { folder, clock } = setup()
  expect(await new DiskUsage(null, clock).bytes()).toBeNull()
  expect(await new DiskUsage(folder, clock, 1).bytes()).toBeNull()
  expect(await new DiskUsage(join(folder, "nowhere"), clock).bytes()).toBe(0)
})
