// Creates a backup of a database and an object store, while servers work on them. The database is read as of one moment. An object is
// stored before the database refers to it, so the objects are copied once before that moment, in case a run is removed meanwhile, and
// again after it, for those that are new.

import { createHash, randomBytes } from "node:crypto"
import { readFile, rename, rm, stat } from "node:fs/promises"
import { dirname } from "node:path"
import type { Clock } from "../core/model/ports.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { createDurableFolder, syncFolder, writeDurableFile } from "../objects/shared/durable-file.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { BackupError } from "./errors.ts"
import { FORMAT, keyFile, type Manifest, manifestFile, objectFolder, objectListFile } from "./manifest.ts"
import { copyObjects, listText, type ObjectEntry } from "./objects.ts"
import { writeTables } from "./tables.ts"

export interface BackupOptions {
  store: Pick<ServerStore, "dump" | "kind">
  /** null: objects are left out. */
  objects: ObjectStore | null
  /** File of the admin key, which may not exist. */
  adminKey: string
  folder: string
  version: string
  clock: Clock
  /** Opens an object store in a folder. */
  openFolder(folder: string): Promise<ObjectStore>
}

export const createBackup = async (options: BackupOptions): Promise<Manifest> => {
  const { folder } = options
  if ((await stat(folder).catch(() => null)) !== null) throw new BackupError(`${folder} exists already: give a new name`)
  const draft = `${folder}.${randomBytes(4).toString("hex")}.part`
  await createDurableFolder(draft)
  try {
    const manifest = await fill(options, draft)
    await rename(draft, folder)
    await syncFolder(dirname(folder))
    return manifest
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
}

const fill = async (options: BackupOptions, draft: string): Promise<Manifest> => {
  const { store, version, clock } = options
  const copied = new Map<string, ObjectEntry>()
  const copy = async (): Promise<void> => {
    if (options.objects !== null) await copyObjects(options.objects, await options.openFolder(objectFolder(draft)), copied)
  }
  await copy()
  const createdAt = new Date(clock.now()).toISOString()
  const { schemaVersion, tables } = await store.dump(async (dump) => ({
    schemaVersion: dump.schemaVersion,
    tables: await writeTables(draft, dump),
  }))
  await copy()
  const manifest: Manifest = {
    format: FORMAT,
    ork: version,
    schema_version: schemaVersion,
    created_at: createdAt,
    store: store.kind,
    tables,
    objects: options.objects === null ? null : await writeList(draft, [...copied.values()]),
    admin_key: await copyKey(options.adminKey, draft),
  }
  await writeDurableFile(manifestFile(draft), `${JSON.stringify(manifest, null, 2)}\n`)
  await syncFolder(draft)
  return manifest
}

const writeList = async (draft: string, entries: readonly ObjectEntry[]): Promise<Manifest["objects"]> => {
  const text = listText(entries)
  await writeDurableFile(objectListFile(draft), text)
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0)
  return { count: entries.length, bytes, sha256: checksum(text) }
}

const copyKey = async (adminKey: string, draft: string): Promise<Manifest["admin_key"]> => {
  const text = await readFile(adminKey, "utf8").catch(() => null)
  if (text === null) return null
  await writeDurableFile(keyFile(draft), text)
  return { sha256: checksum(text) }
}

export const checksum = (text: string): string => createHash("sha256").update(text).digest("hex")
