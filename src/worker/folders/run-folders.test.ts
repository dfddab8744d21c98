import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import type { CacheLimits } from "./eviction.ts"
import { RunFolders } from "./run-folders.ts"

const RUNS = ["1", "2", "3"].map((n) => `0190a000-0000-7000-8000-00000000000${n}`) as [string, string, string]
const HOUR = 3_600_000
const DAY = 24 * HOUR

const setup = (limits?: CacheLimits) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-folders-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const now = Date.now()
  /** Creates a folder of a run with the given size and age. */
  const make = (kind: string, runId: string, { bytes = 1, ageMs = 0 } = {}): string => {
    const folder = join(dataDir, kind, runId)
    mkdirSync(folder, { recursive: true })
    if (bytes > 0) writeFileSync(join(folder, "file"), "x".repeat(bytes))
    utimesSync(folder, (now - ageMs) / 1000, (now - ageMs) / 1000)
    return folder
  }
  const left = (kind = "work"): string[] => readdirSync(join(dataDir, kind)).toSorted()
  let removals = 0
  const folders = new RunFolders(dataDir, () => void removals++, limits)
  return { dataDir, now, make, left, folders, removals: () => removals }
}

test("the work folder of an ended run is kept for a retry and removed with the run", async () => {
  const { folders, make, left, now } = setup()
  const [run] = RUNS
  await folders.use(run)
  for (const kind of ["work", "upstream", "objects/runs"]) make(kind, run)
  await folders.runEnded(run, now)
  await folders.remove(run)
  expect([left(), left("upstream")], "an attempt uses it").toEqual([[run], [run]])
  folders.release(run)
  await folders.runEnded(run, now)
  expect([left(), left("upstream"), left("objects/runs")]).toEqual([[run], [], []])
  expect(folders.runsToCheck(now), "it was checked just now").toEqual([])
  expect(folders.runsToCheck(now + HOUR)).toEqual([run])
  await folders.remove(run)
  expect([left(), folders.runsToCheck(now + DAY)]).toEqual([[], []])
})

test("an empty folder is removed when its run ends", async () => {
  const { folders, make, left, now } = setup()
  await folders.use(RUNS[0])
  make("work", RUNS[0], { bytes: 0 })
  folders.release(RUNS[0])
  await folders.runEnded(RUNS[0], now)
  expect([left(), folders.runsToCheck(now + DAY)]).toEqual([[], []])
})

test("folders of other processes are checked, but not while another worker may use them", async () => {
  const { folders, make, now } = setup()
  make("work", RUNS[0], { ageMs: 2 * HOUR })
  make("objects/runs", RUNS[1], { ageMs: 2 * HOUR })
  make("work", RUNS[2])
  await folders.start()
  expect(folders.runsToCheck(now)).toEqual([RUNS[0], RUNS[1]])
  expect(folders.runsToCheck(now + 2 * HOUR).toSorted()).toEqual(RUNS)
})

test.each([
  ["too old", { maxAgeMs: 5 * HOUR, maxCount: 9, maxBytes: 9e9 }, [RUNS[0]]],
  ["too many", { maxAgeMs: DAY, maxCount: 2, maxBytes: 9e9 }, [RUNS[0]]],
  ["too large together", { maxAgeMs: DAY, maxCount: 9, maxBytes: 2500 }, [RUNS[0]]],
  ["too large each, but used recently", { maxAgeMs: DAY, maxCount: 9, maxBytes: 500 }, [RUNS[0], RUNS[1]]],
  ["within the limits", { maxAgeMs: DAY, maxCount: 3, maxBytes: 3000 }, []],
])("folders of ended runs that are %s are removed, oldest first", async (_name, limits, removed) => {
  const { folders, make, left, now, removals } = setup(limits)
  for (const [i, run] of RUNS.entries()) {
    await folders.use(run)
    make("work", run, { bytes: 1000, ageMs: [6 * HOUR, 3 * HOUR, 1000][i]! })
    folders.release(run)
  }
  await folders.sweep(now)
  expect(left(), "their runs have not ended").toEqual(RUNS)
  for (const run of RUNS) await folders.runEnded(run, now)
  const before = removals()
  await folders.sweep(now)
  expect(removals() - before, "onRemove is called for each").toBe(removed.length)
  expect(left()).toEqual(RUNS.filter((run) => !removed.includes(run)))
})

test("a sweep keeps and touches the folder that a retry uses", async () => {
  const { folders, make, left, now } = setup({ maxAgeMs: 0, maxCount: 0, maxBytes: 0 })
  await folders.use(RUNS[0])
  const folder = make("work", RUNS[0], { ageMs: DAY })
  folders.release(RUNS[0])
  await folders.runEnded(RUNS[0], now)
  await folders.use(RUNS[0])
  await folders.sweep(now)
  expect(left()).toEqual([RUNS[0]])
  folders.release(RUNS[0])
  await folders.runEnded(RUNS[0], now)
  await folders.sweep(now)
  expect(existsSync(folder), "it was used just now").toBe(true)
  await folders.sweep(now + 2 * HOUR)
  expect(existsSync(folder)).toBe(false)
})

test("an old draft of a killed worker is removed", async () => {
  const { folders, make, left, now } = setup()
  make("work", `${RUNS[0]}.abc.part`, { ageMs: 2 * HOUR })
  make("work", `${RUNS[1]}.abc.part`)
  await folders.sweep(now)
  expect(left()).toEqual([`${RUNS[1]}.abc.part`])
})
