import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { openLog } from "./logs/log-sink.ts"
import { ownedPrefix, removeStaleFolders } from "./owned-folder.ts"
import { currentOwner } from "./owner.ts"
import { MemoryObjectStore } from "./testing/memory.ts"

const setup = () => {
  const parent = mkdtempSync(join(tmpdir(), "ork-owned-"))
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }))
  const [namespace] = currentOwner().split("-")
  return { parent, dead: `${namespace}-999999999-1`, elsewhere: `1${namespace}-999999999-1` }
}

test.runIf(process.platform === "linux")("folders of dead processes are removed, and nothing else", () => {
  const { parent, dead, elsewhere } = setup()
  const kept = [`${ownedPrefix("log")}a`, `ork-log-${elsewhere}.a`, `ork-log-${dead}`, `other-log-${dead}.a`, "ork-log-old"]
  const removed = [`ork-log-${dead}.a`, `ork-io-${dead}.a`, `ork-exec-${dead}.a`]
  for (const name of [...kept, ...removed]) {
    mkdirSync(join(parent, name))
    writeFileSync(join(parent, name, "log"), "text")
  }
  const target = join(parent, "other-target")
  mkdirSync(target)
  symlinkSync(target, join(parent, `ork-log-${dead}.link`))
  removeStaleFolders(parent)
  expect(readdirSync(parent).toSorted()).toEqual([...kept, "other-target"].toSorted())
})

test("a log for a remote store is written to a folder of this process until it is uploaded", async () => {
  const before = new Set(readdirSync(tmpdir()))
  const log = openLog(new MemoryObjectStore(), "runs/r/t/a/", { secrets: [] })
  const created = readdirSync(tmpdir()).filter((name) => name.startsWith(ownedPrefix("log")) && !before.has(name))
  expect(created).toHaveLength(1)
  await log.write("stdout", "text\n")
  await log.close()
  expect(existsSync(join(tmpdir(), basename(created[0]!)))).toBe(false)
})
