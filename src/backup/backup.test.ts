import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { systemClock as clock } from "../engine/system.ts"
import { FileObjectStore } from "../objects/file/file.ts"
import { MemoryObjectStore } from "../objects/testing/memory.ts"
import type { Dump } from "../store/contract/transfer.ts"
import { type BackupOptions, createBackup } from "./backup.ts"
import { BackupError } from "./errors.ts"
import { openBackup, restoreBackup } from "./restore.ts"

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-backup-test-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Returns a store with one table. `meanwhile` runs at the moment of the snapshot. */
const storeWith = (meanwhile: () => Promise<void> = async () => {}): BackupOptions["store"] => ({
  kind: "postgres",
  async dump(use) {
    await meanwhile()
    return use({ schemaVersion: 1, chunks: [{ table: "runs", columns: ["id", "seq"], rows: [["r\u2028\n", 1]] }] })
  },
})

const setup = async (source: MemoryObjectStore, meanwhile?: () => Promise<void>) => {
  const folder = join(temporaryFolder(), "saved")
  await createBackup({
    store: storeWith(meanwhile),
    objects: source,
    adminKey: join(folder, "none"),
    folder,
    version: "1",
    clock,
    openFolder: async (path) => new FileObjectStore(path),
  })
  return openBackup(folder, async () => new FileObjectStore(join(folder, "objects")))
}

const textOf = async (objects: { get(key: string): Promise<Uint8Array | null> } | null, key: string) =>
  String(await objects!.get(key).then((bytes) => (bytes === null ? null : Buffer.from(bytes).toString())))

test("objects are saved from a remote store, although others write and remove some meanwhile", async () => {
  const source = new MemoryObjectStore()
  await source.put("runs/1/a/x/log", "one\n")
  await source.put("runs/1/a/x/status.json", "running")
  await source.put("runs/2/a/x/output.json", "2")
  const backup = await setup(source, async () => {
    await source.put("runs/1/a/x/log", "one\ntwo\n")
    await source.put("runs/1/a/x/status.json", "success")
    await source.put("runs/3/a/x/output.json", "3")
    await source.deletePrefix("runs/2/")
  })
  expect(backup.manifest.objects).toMatchObject({ count: 4, bytes: 17 })
  expect(await textOf(backup.objects, "runs/1/a/x/log")).toBe("one\ntwo\n")
  expect(await textOf(backup.objects, "runs/1/a/x/status.json")).toBe("success")
  expect(await textOf(backup.objects, "runs/2/a/x/output.json")).toBe("2")
  expect(await textOf(backup.objects, "runs/3/a/x/output.json")).toBe("3")
})

test("a restore fills a remote store and the tables; one that fails removes the objects that it copied", async () => {
  const source = new MemoryObjectStore()
  await source.put("jobs/1/x/log", "text")
  const backup = await setup(source)
  const objects = new MemoryObjectStore()
  const rows: unknown[] = []
  const load = async ({ chunks }: Dump): Promise<object> => {
    for await (const chunk of chunks) rows.push(...chunk.rows)
    return {}
  }
  const target = { objects, database: "the database", objectStore: "the store" }
  const full = { schemaVersion: 1, isBlank: async () => true, load: () => Promise.reject(new Error("disk full")) }
  await expect(restoreBackup(backup, { ...target, store: full })).rejects.toThrow("disk full")
  expect(objects.objects.size).toBe(0)
  await restoreBackup(backup, { ...target, store: { ...full, load: load as never } })
  expect(await textOf(objects, "jobs/1/x/log")).toBe("text")
  expect(rows).toEqual([["r\u2028\n", 1]])
  await expect(restoreBackup(backup, { ...target, store: full })).rejects.toThrow(BackupError)
  await expect(restoreBackup(backup, { ...target, store: full })).rejects.toThrow("the store is not empty")
})
