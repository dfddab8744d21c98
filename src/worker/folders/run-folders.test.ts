import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import type { CacheLimits } from "./eviction.ts"
import { RunFolders } from "./run-folders.ts"

const RUNS = ["1", "2", "3"].map((n) => `0190a000-0000-7000-8000-00000000000${n}`) as [string, string, string]
const HOUR = 3_600_000
const DAY = 24 * HOUR

const setup = (bounds?: CacheLimits) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-folders-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const now = Date.now()
  /** Files of a run, as old as said. */
  const make = (kind: string, runId: string, { bytes = 1, ageMs = 0 } = {}): string => {
    const folder = join(dataDir, kind, runId)
    mkdirSync(folder, { recursive: true })
    if (bytes > 0) writeFileSync(join(folder, "file"), "x".repeat(bytes))
    utimesSync(folder, (now - ageMs) / 1000, (now - ageMs) / 1000)
    return folder
  }
  const left = (kind = "work"): string[] => readdirSync(join(dataDir, kind)).toSorted()
  let removals = 0
  const folders = new RunFolders(dataDir, () => void removals++, bounds)
  return { dataDir, now, make, left, folders, removals: () => removals }
}

test("the folder of a run that has ended stays for a retry and goes with the run", async () => {
  const { folders, make, left, now } = setup()
  const [run] = RUNS
  await folders.use(run)
  for (const kind of ["work", "upstream", "objects/runs"]) make(kind, run)
  await folders.ended(run, now)
  await folders.remove(run)
  expect([left(), left("upstream")], "an attempt is at work in it").toEqual([[run], [run]])
  folders.release(run)
  await folders.ended(run, now)
  expect([left(), left("upstream"), left("objects/runs")]).toEqual([[run], [], []])
  expect(folders.runsToCheck(now), "it was asked about just now").toEqual([])
  expect(folders.runsToCheck(now + HOUR)).toEqual([run])
  await folders.remove(run)
  expect([left(), folders.runsToCheck(now + DAY)]).toEqual([[], []])
})

test("an empty folder goes with the end of its run", async () => {
  const { folders, make, left, now } = setup()
  await folders.use(RUNS[0])
  make("work", RUNS[0], { bytes: 0 })
  folders.release(RUNS[0])
  await folders.ended(RUNS[0], now)
  expect([left(), folders.runsToCheck(now + DAY)]).toEqual([[], []])
})

test("what another process left is asked about, but not while a worker beside this one may use it", async () => {
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
  ["too large at all, but used lately", { maxAgeMs: DAY, maxCount: 9, maxBytes: 500 }, [RUNS[0], RUNS[1]]],
  ["within bounds", { maxAgeMs: DAY, maxCount: 3, maxBytes: 3000 }, []],
])("folders of ended runs that are %s go, oldest first", async (_name, bounds, gone) => {
  const { folders, make, left, now, removals } = setup(bounds)
  for (const [i, run] of RUNS.entries()) {
    await folders.use(run)
    make("work", run, { bytes: 1000, ageMs: [6 * HOUR, 3 * HOUR, 1000][i]! })
    folders.release(run)
  }
  await folders.sweep(now)
  expect(left(), "they have not ended").toEqual(RUNS)
  for (const run of RUNS) await folders.ended(run, now)
  const before = removals()
  await folders.sweep(now)
  expect(removals() - before, "whoever remembers these folders is told").toBe(gone.length)
  expect(left()).toEqual(RUNS.filter((run) => !gone.includes(run)))
})

test("a retry uses what is there, and a sweep leaves it alone and marks it as used", async () => {
  const { folders, make, left, now } = setup({ maxAgeMs: 0, maxCount: 0, maxBytes: 0 })
  await folders.use(RUNS[0])
  const folder = make("work", RUNS[0], { ageMs: DAY })
  folders.release(RUNS[0])
  await folders.ended(RUNS[0], now)
  await folders.use(RUNS[0])
  await folders.sweep(now)
  expect(left()).toEqual([RUNS[0]])
  folders.release(RUNS[0])
  await folders.ended(RUNS[0], now)
  await folders.sweep(now)
  expect(existsSync(folder), "used a moment ago").toBe(true)
  await folders.sweep(now + 2 * HOUR)
  expect(existsSync(folder)).toBe(false)
})

test("a draft that a killed worker left goes when it is old", async () => {
  const { folders, make, left, now } = setup()
  make("work", `${RUNS[0]}.abc.part`, { ageMs: 2 * HOUR })
  make("work", `${RUNS[1]}.abc.part`)
  await folders.sweep(now)
  expect(left()).toEqual([`${RUNS[1]}.abc.part`])
})
