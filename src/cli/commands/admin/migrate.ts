// `ork migrate`: creates the database, or migrates it to the schema version of this Ork. Servers also migrate when they start; the
// command allows to migrate before. With `--to`, moves a SQLite database to Postgres.

import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { printResult } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"
import { loadConfig, type StoreFlags } from "../../target/load-config.ts"
import { type Config, sqliteFile, withoutPassword } from "../../../config.ts"
import { rejectSecondServer } from "../../../server/sole-server.ts"
import { Conflict } from "../../../store/contract/errors.ts"
import type { ServerStore } from "../../../store/contract/server-store.ts"
import type { TableDigests } from "../../../store/contract/transfer.ts"

export interface MigrateOptions extends StoreFlags {
  to?: string
}

export const migrate = async (context: Context, options: MigrateOptions): Promise<number> => {
  const { databaseUrl, objectStore, to } = options
  const config = await loadConfig(context, { databaseUrl, objectStore })
  const database = withoutPassword(config.databaseUrl)
  if (to !== undefined) return move(context, options, config, to)
  const store = await context.backends.openStore(config, { create: true })
  await store?.close()
  return printResult(context, options, { database, migrated: true }, `${database} is up to date`)
}

const move = async (context: Context, options: MigrateOptions, config: Config, to: string): Promise<number> => {
  const target = await loadConfig(context, { databaseUrl: to })
  if (sqliteFile(config) === null) throw new InputError("--to moves a SQLite database, but ORK_DATABASE_URL names another one")
  if (sqliteFile(target) !== null)
    throw new InputError("--to takes the address of a Postgres database: postgres://USER@HOST/NAME")
  const from = withoutPassword(config.databaseUrl)
  const source = await context.backends.openStore(config, { create: false })
  if (source === null) throw new InputError(`there is no database ${from} to move; change to another folder`)
  try {
    await rejectSecondServer({ store: source, database: from })
    await rejectRuns(context, source)
    const address = withoutPassword(to)
    const tables = await copy(context, source, target, address)
    const rows = Object.values(tables).reduce((sum, table) => sum + table.rows, 0)
    const counts = [plural(tables["runs"]?.rows ?? 0, "run"), plural(tables["jobs"]?.rows ?? 0, "job"), plural(rows, "row")]
    const text = `moved ${from} to ${address}: ${counts.join(", ")}, read back and compared\nset ORK_DATABASE_URL to the new address; the objects stay in ${config.objectStore}`
    return printResult(context, options, { from, to: address, tables }, text)
  } finally {
    await source.close()
  }
}

/** Rejects the move while an `ork run` is open: it would go on in the old database. */
const rejectRuns = async ({ backends }: Context, source: ServerStore): Promise<void> => {
  const found = (await source.listHolders()).find(
    (holder) => holder.kind === "run" && !holder.dead && backends.processAlive(holder.process),
  )
  if (found === undefined) return
  throw new Conflict(`an \`ork run\` is using the database (process ${found.process.split(":")[0]}): wait until it has ended`)
}

const copy = async (context: Context, source: ServerStore, config: Config, movedTo: string): Promise<TableDigests> => {
  const target = (await context.backends.openStore(config, { create: true, migrate: false }))!
  try {
    return await source.dump((dump) => target.load(dump), { movedTo })
  } finally {
    await target.close()
  }
}
