// `ork migrate`: creates the database, or migrates it to the schema version of this Ork. Servers also migrate when they start; the
// command allows to migrate before.

import type { Context } from "../target/context.ts"
import { printResult } from "../terminal/output.ts"
import { loadConfig, type StoreFlags } from "../target/load-config.ts"
import { withoutPassword } from "../../config.ts"

export const migrate = async (context: Context, options: StoreFlags): Promise<number> => {
  const { databaseUrl, objectStore } = options
  const config = await loadConfig(context, { databaseUrl, objectStore })
  const store = await context.backends.openStore(config, { create: true })
  await store?.close()
  const database = withoutPassword(config.databaseUrl)
  return printResult(context, options, { database, migrated: true }, `${database} is up to date`)
}
