import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { uuidv7 } from "../../core/model/ids.ts"
import { systemRandom } from "../system.ts"
import { LeftFolders, type LeftFoldersOptions } from "./left-folders.ts"
import { timerClock } from "./testing.ts"

const HOUR = 3_600_000
const NOW = Date.parse("2026-01-02T03:04:05Z")

const setup = (stored: { runs?: string[]; jobs?: string[]; bundles?: string[] }) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-left-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const asked: string[] = []
  const store = {
    getRun: async (id: string) => {
      asked.push(id)
      return stored.runs?.includes(id) === true ? {} : null
    },
    getJob: async (id: string) => (stored.jobs?.includes(id) === true ? {} : null),
    bundlesInUse: async (hashes: string[]) => hashes.filter((hash) => stored.bundles?.includes(hash)),
  } as unknown as LeftFoldersOptions["store"]
  const clock = { ...timerClock().clock, now: () => NOW }
  return {
    asked,
    folders: new LeftFolders({ store, dataDir, clock }),
    has: (kind: string, name: string): boolean => existsSync(join(dataDir, kind, name)),
    make: (kind: string, name: string, ageHours: number): void => {
      const folder = join(dataDir, kind, name)
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, "file"), "")
      const at = (NOW - ageHours * HOUR) / 1000
      utimesSync(folder, at, at)
    },
  }
}

const newId = (): string => uuidv7(NOW, systemRandom.hex128())

test("the folders of a run that another server has removed are removed; those of runs and jobs that exist stay", async () => {
  const [gone, run, job] = [newId(), newId(), newId()]
  const { folders, make, has } = setup({ runs: [run], jobs: [job] })
  for (const id of [gone, run, job]) for (const kind of ["work", "upstream"]) make(kind, id, 25)
  expect(await folders.removeSome()).toBe(1)
  expect([has("work", gone), has("upstream", gone)]).toEqual([false, false])
  for (const id of [run, job]) expect([has("work", id), has("upstream", id)]).toEqual([true, true])
})

test("a folder of the last day, and one with another name, stay", async () => {
  const young = newId()
  const { folders, make, has } = setup({})
  make("work", young, 23)
  make("work", "notes", 1000)
  expect(await folders.removeSome()).toBe(0)
  expect([has("work", young), has("work", "notes")]).toEqual([true, true])
})

test("each call checks a part of the folders, and the calls check all of them in turn", async () => {
  const ids = Array.from({ length: 501 }, newId)
  const { folders, make, asked } = setup({ runs: ids })
  for (const id of ids) make("work", id, 25)
  await folders.removeSome()
  expect(asked).toHaveLength(500)
  await folders.removeSome()
  expect(asked.toSorted()).toEqual(ids.toSorted())
  await folders.removeSome()
  expect(asked).toHaveLength(1001)
})

test("the folder of a bundle that no version names is removed", async () => {
  const [used, unused, fresh] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string]
  const { folders, make, has } = setup({ bundles: [used] })
  make("bundles", used, 25)
  make("bundles", unused, 25)
  make("bundles", fresh, 1)
  expect(await folders.removeSome()).toBe(1)
  expect([has("bundles", used), has("bundles", unused), has("bundles", fresh)]).toEqual([true, false, true])
})
