// Restores a backup into a blank database and an empty object store. The whole backup is verified first. The database comes last, in one
// transaction, so that a restore that was interrupted can be repeated.

import { readFile } from "node:fs/promises"
import { KEY_PREFIXES, type ObjectStore } from "../objects/objects.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { checksum } from "./backup.ts"
import { BackupError } from "./errors.ts"
import { damaged, keyFile, type Manifest, readManifest } from "./manifest.ts"
import { copyObjects, readList, verifyObjects } from "./objects.ts"
import { readTables, verifyTables } from "./tables.ts"

export interface Backup {
  folder: string
  manifest: Manifest
  /** The objects of the backup; null if it has none. */
  objects: ObjectStore | null
  adminKey: string | null
}

/** Reads and verifies a backup. Throws a BackupError if a part is missing or damaged. */
export const openBackup = async (folder: string, openObjects: () => Promise<ObjectStore>): Promise<Backup> => {
  const manifest = await readManifest(folder)
  await verifyTables(folder, manifest)
  const objects = manifest.objects === null ? null : await openObjects()
  if (objects !== null) await verifyObjects(folder, objects, await readList(folder, manifest.objects!.sha256))
  return { folder, manifest, objects, adminKey: await readKey(folder, manifest) }
}

const readKey = async (folder: string, { admin_key: expected }: Manifest): Promise<string | null> => {
  if (expected === null) return null
  const text = await readFile(keyFile(folder), "utf8").catch(() => "")
  if (checksum(text) !== expected.sha256) throw damaged(folder, "admin.key does not match its checksum")
  return text
}

export interface RestoreTarget {
  store: Pick<ServerStore, "schemaVersion" | "isBlank" | "load">
  objects: ObjectStore
  /** Names of both, for messages. */
  database: string
  objectStore: string
}

/** Throws a BackupError, and removes what it copied, if the target is in use or the backup cannot be loaded. */
export const restoreBackup = async ({ folder, manifest, objects }: Backup, target: RestoreTarget): Promise<void> => {
  await rejectTarget(folder, manifest, target)
  try {
    if (objects !== null) await copyObjects(objects, target.objects, new Map())
    await target.store.load(readTables(folder, manifest))
  } catch (error) {
    if (objects !== null) await removeObjects(target.objects)
    throw error
  }
}

const rejectTarget = async (folder: string, manifest: Manifest, target: RestoreTarget): Promise<void> => {
  if (manifest.schema_version > target.store.schemaVersion) {
    throw new BackupError(
      `the backup ${folder} was written by Ork ${manifest.ork} (schema version ${manifest.schema_version}), ` +
        `but this Ork knows versions up to ${target.store.schemaVersion}: restore it with that version or a newer one`,
    )
  }
  if (!(await target.store.isBlank())) {
    throw new BackupError(
      `${target.database} is not empty: restore into a new folder, or point ORK_DATABASE_URL at an empty database`,
    )
  }
  if (manifest.objects === null) return
  for (const prefix of KEY_PREFIXES) {
    if ((await target.objects.list(prefix, { limit: 1 })).length > 0) {
      throw new BackupError(
        `${target.objectStore} is not empty: restore into a new folder, or point ORK_OBJECT_STORE at an empty one`,
      )
    }
  }
}

const removeObjects = async (objects: ObjectStore): Promise<void> => {
  for (const prefix of KEY_PREFIXES) await objects.deletePrefix(prefix)
}
