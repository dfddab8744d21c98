// `ork restore`: verifies a backup and restores it into an empty database and an empty object store.

import { existsSync } from "node:fs"
import { rm } from "node:fs/promises"
import { resolve } from "node:path"
import { describe } from "./backup.ts"
import type { Context } from "../../target/context.ts"
import { loadConfig, type StoreFlags } from "../../target/load-config.ts"
import { openWritableObjects } from "../../target/stores.ts"
import { printResult } from "../../terminal/output.ts"
import { objectFolder } from "../../../backup/manifest.ts"
import { type Backup, openBackup, restoreBackup } from "../../../backup/restore.ts"
import { type Config, sqliteFile, withoutPassword } from "../../../config.ts"
import { storeAdminKey } from "../../../server/admin-key.ts"

const ADVICE = "stop the servers that the backup is of before you start one here: both would run the same work"

export const restore = async (context: Context, name: string, options: StoreFlags): Promise<number> => {
  const { backends } = context
  const config = await loadConfig(context, { databaseUrl: options.databaseUrl, objectStore: options.objectStore })
  const folder = resolve(context.cwd, name)
  const backup = await openBackup(folder, () => backends.openObjects({ objectStore: `file:${objectFolder(folder)}` }))
  await restoreInto(context, config, backup)
  if (backup.adminKey !== null) await storeAdminKey(resolve(context.cwd, config.dataDir), backup.adminKey)
  const database = withoutPassword(config.databaseUrl)
  const text = `${database} holds ${describe(backup.manifest)} of ${backup.manifest.created_at}\n${ADVICE}`
  return printResult(context, options, { database, ...backup.manifest }, text)
}

/** Removes the file of a SQLite database that it created if the restore fails. */
const restoreInto = async (context: Context, config: Config, backup: Backup): Promise<void> => {
  const file = sqliteFile(config)
  const existed = file !== null && existsSync(resolve(context.cwd, file))
  const objects = await openWritableObjects(context, config)
  const store = (await context.backends.openStore(config, { create: true, migrate: false }))!
  const { objectStore } = config
  try {
    await restoreBackup(backup, { store, objects, database: withoutPassword(config.databaseUrl), objectStore })
    await store.close()
  } catch (error) {
    await store.close()
    if (file !== null && !existed) await rm(resolve(context.cwd, file), { force: true })
    throw error
  }
}
