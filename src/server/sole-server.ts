// Allows one server per SQLite file: a second one would gain nothing, and users would not know which one they talk to. On Postgres any
// number of servers share the work.

import { Conflict } from "../store/contract/errors.ts"
import type { LeaseHolderRow, Store } from "../store/contract/store.ts"

export interface SoleServerOptions {
  store: Pick<Store, "kind" | "listHolders">
  /** Identity of this process, as `isAlive` reads it. */
  identity: string
  /** Name of the database for the error message. */
  database: string
  isAlive(identity: string): boolean
}

/** Throws a Conflict that names the other server. Called before the engine starts, and again after it has registered. */
export const rejectSecondServer = async ({ store, identity, database, isAlive }: SoleServerOptions): Promise<void> => {
  if (store.kind !== "sqlite") return
  const first = firstOther(await store.listHolders(), identity, isAlive)
  if (first === null) return
  throw new Conflict(
    `another \`ork serve\` uses ${database} already: ${first.name} (process ${first.process.split(":")[0]}); ` +
      `stop it first, or give this one a folder or ORK_DATABASE_URL of its own`,
  )
}

/** Returns a live server that registered before this one. Of two that start together, the first one stays. */
const firstOther = (
  holders: readonly LeaseHolderRow[],
  identity: string,
  isAlive: (identity: string) => boolean,
): LeaseHolderRow | null => {
  for (const holder of holders) {
    if (holder.kind !== "server" || holder.dead) continue
    if (holder.process === identity) return null
    if (isAlive(holder.process)) return holder
  }
  return null
}
