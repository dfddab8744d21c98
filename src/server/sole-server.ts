// One server per SQLite file: a second one would run beside the first without either gaining anything, and people would not know
// which one they talk to. On Postgres any number share the work.

import { Conflict } from "../store/contract/errors.ts"
import type { LeaseHolderRow, Store } from "../store/contract/store.ts"

export interface SoleServerOptions {
  store: Pick<Store, "kind" | "listHolders">
  /** How this process is known to others. */
  identity: string
  where: string
  alive(identity: string): boolean
}

/** Throws Conflict, naming the first one. Called before the engine starts, and again once it is registered. */
export const refuseSecond = async ({ store, identity, where, alive }: SoleServerOptions): Promise<void> => {
  if (store.kind !== "sqlite") return
  const first = firstOther(await store.listHolders(), identity, alive)
  if (first === null) return
  throw new Conflict(
    `another \`ork serve\` uses ${where} already: ${first.name} (process ${first.process.split(":")[0]}); ` +
      `stop it first, or give this one a folder or ORK_DATABASE_URL of its own`,
  )
}

/** Holders come in the order that they registered: of two that start together the first stays. */
const firstOther = (
  holders: readonly LeaseHolderRow[],
  identity: string,
  alive: (identity: string) => boolean,
): LeaseHolderRow | null => {
  for (const holder of holders) {
    if (holder.kind !== "server" || holder.dead) continue
    if (holder.process === identity) return null
    if (alive(holder.process)) return holder
  }
  return null
}
