import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { removeOldJobs, removeUnusedBundles } from "./retention.ts"
import { bundleFolder, bundleKey, storeBundle, createBundle } from "../../objects/bundles/bundles.ts"
import { FileObjectStore } from "../../objects/file/file.ts"

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
