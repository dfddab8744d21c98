import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { removeOldJobs, removeOldRuns, removeUnusedBundles } from "./retention.ts"
import { bundleFolder, bundleKey, storeBundle, createBundle } from "../../objects/bundles/bundles.ts"
import { uuidv7 } from "../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../core/rules/jobs/jobs.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { JOB_DEFAULTS } from "../../store/contract/jobs.ts"
import { openSqlite } from "../../store/sqlite/sqlite.ts"
import { systemClock, systemRandom } from "../system.ts"

test("bundles that no version names are removed, with what was unpacked of them; the others stay", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-retention-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const objects = new FileObjectStore(join(dataDir, "objects"))
  const bundles = Array.from({ length: 250 }, (_, i) =>
    createBundle([{ path: "a.ts", bytes: Buffer.from(String(i)), executable: false }]),
  )
  for (const bundle of bundles) await storeBundle(objects, bundle)
  const [used, unused] = [bundles[7]!.hash, bundles[8]!.hash]
  for (const hash of [used, unused]) mkdirSync(bundleFolder(dataDir, hash), { recursive: true })
  const store = { bundlesInUse: async (hashes: string[]) => hashes.filter((hash) => hash === used) }
  expect(await removeUnusedBundles({ store, objects, dataDir })).toBe(249)
  expect(await objects.list("bundles/")).toEqual([bundleKey(used)])
  expect([existsSync(bundleFolder(dataDir, used)), existsSync(bundleFolder(dataDir, unused))]).toEqual([true, false])
})

test("a run whose files cannot be removed stays, and keeps no other", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-retention-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  // No path contains a null character.
  const stuck = Array.from({ length: 101 }, (_, i) => `stuck\0${i}`)
  const runs = [...stuck, "old"]
  const store = {
    currentTime: async () => 0,
    removableRuns: async ({ limit }: { limit: number }) => runs.slice(0, limit),
    removeRun: async (id: string, rows: number) => rows > 0 && runs.splice(runs.indexOf(id), 1).length === 1,
  } as unknown as Parameters<typeof removeOldRuns>[0]["store"]
  const objects = new FileObjectStore(join(dataDir, "objects"))
  objects.deletePrefix = async () => {}
  const { removed, problems } = await removeOldRuns({ store, objects, dataDir }, { keep: 1 })
  expect([removed, runs.length, problems.size]).toEqual([1, stuck.length, stuck.length])
  expect([...problems.values()][0]).toMatch(/^the folder .* of run stuck\0\d+ cannot be removed: .*null bytes/)
})

test("an expired job that got a dependent meanwhile keeps its log and output; the others are removed with theirs", async () => {
  const expired = [["kept", "old"], []]
  const deleted: string[] = []
  const store = {
    removableJobs: async () => expired.shift()!,
    deleteJob: async (id: string) => (id === "kept" ? ({ rejected: "has_dependents" } as const) : null),
  }
  const objects = { deletePrefix: async (prefix: string) => void deleted.push(prefix) }
  expect(await removeOldJobs({ store, objects }, 1000)).toBe(1)
  expect(deleted).toEqual(["jobs/old/"])
})

test("an expired job that is retried while others are removed stays", async () => {
  const store = await openSqlite({ path: ":memory:", clock: systemClock, random: systemRandom })
  onTestFinished(() => store.close())
  await store.migrate()
  const jobs = ["old", "retried"].map((name) => ({
    id: uuidv7(systemClock.now(), systemRandom.hex128()),
    name,
    queue: "default",
    payload: null,
    priority: 5,
    dependencies: [],
    retryPolicy: DEFAULT_JOB_RETRY,
    task: null,
    ...JOB_DEFAULTS,
  }))
  await store.createJobs(jobs)
  for (const { id } of jobs) await store.cancelJob(id)
  const [old, retried] = jobs.map(({ id }) => id).toSorted()
  const objects = {
    deletePrefix: async (prefix: string) => void (prefix === `jobs/${old}/` && (await store.retryJob(retried!))),
  }
  expect(await removeOldJobs({ store, objects }, -1000)).toBe(1)
  expect([await store.getJob(old!), await store.getJob(retried!)]).toEqual([null, expect.objectContaining({ status: "READY" })])
})
