// `ork backup`: saves the database, the objects and the admin key in a new folder, while servers work.

import { resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { shortBytes } from "../../../core/values/quantities.ts"
import { loadConfig, type StoreFlags } from "../../target/load-config.ts"
import { InputError } from "../../terminal/errors.ts"
import { printResult } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"
import { createBackup } from "../../../backup/backup.ts"
import type { Manifest } from "../../../backup/manifest.ts"
import { withoutPassword } from "../../../config.ts"
import { adminKeyFile } from "../../../server/admin-key.ts"

export interface BackupOptions extends StoreFlags {
  /** False with `--no-objects`. */
  objects: boolean
}

export const backup = async (context: Context, name: string | undefined, options: BackupOptions): Promise<number> => {
  const { backends } = context
  const config = await loadConfig(context, { databaseUrl: options.databaseUrl, objectStore: options.objectStore })
  const folder = resolve(
    context.cwd,
    name ?? `ork-backup-${new Date(backends.clock.now()).toISOString().replaceAll(/[-:]|\..*/g, "")}`,
  )
  const database = withoutPassword(config.databaseUrl)
  const store = await backends.openStore(config, { create: false, migrate: false })
  if (store === null) throw new InputError(`there is no database ${database} to back up; change to another folder`)
  try {
    const manifest = await createBackup({
      store,
      objects: options.objects ? await backends.openObjects(config) : null,
      adminKey: adminKeyFile(resolve(context.cwd, config.dataDir)),
      folder,
      version: context.version(),
      clock: backends.clock,
      openFolder: (path) => backends.openObjects({ objectStore: `file:${path}` }),
    })
    return printResult(context, options, { folder, ...manifest }, `${folder} holds ${describe(manifest)} of ${database}`)
  } finally {
    await store.close()
  }
}

export const describe = ({ tables, objects }: Manifest): string =>
  [
    plural(tables["runs"]?.rows ?? 0, "run"),
    plural(tables["jobs"]?.rows ?? 0, "job"),
    objects === null ? "no objects" : `${plural(objects.count, "object")} (${shortBytes(objects.bytes)})`,
  ].join(", ")
