// `ork migrate`: makes the database, or brings it to the version that this Ork knows. Servers do so by themselves when they start;
// this is for those who want it done before.

import type { Context } from "../target/backends.ts"
import { print, printJson } from "../terminal/output.ts"
import { loadConfig, type StoreFlags } from "../target/settings.ts"
import { withoutPassword } from "../../config.ts"

export interface MigrateOptions extends StoreFlags {
  json?: boolean
}

export const migrate = async (context: Context, options: MigrateOptions): Promise<number> => {
  const { databaseUrl, objectStore } = options
  const config = await loadConfig(context, { databaseUrl, objectStore })
  const store = await context.backends.openStore(config, { create: true })
  await store?.close()
  const database = withoutPassword(config.databaseUrl)
  if (options.json === true) printJson(context, { database, migrated: true })
  else print(context, `${database} is up to date`)
  return 0
}
