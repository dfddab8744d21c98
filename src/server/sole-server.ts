// Allows one server per SQLite file: a second one would gain nothing, and users would not know which one they talk to. On Postgres any
// number of servers share the work.

import { Conflict } from "../store/contract/errors.ts"
import type { Store } from "../store/contract/store.ts"

export interface SoleServerOptions {
  store: Pick<Store, "becomeServer" | "listHolders">
  /** Name of the database for the error message. */
  database: string
}

/** Throws a Conflict that names the other server. */
export const rejectSecondServer = async ({ store, database }: SoleServerOptions): Promise<void> => {
  if (await store.becomeServer()) return
  const first = (await store.listHolders()).findLast(({ kind, dead }) => kind === "server" && !dead)
  const who = first === undefined ? "" : `: ${first.name} (process ${first.process.split(":")[0]})`
  throw new Conflict(
    `another \`ork serve\` uses ${database} already${who}; ` +
      `stop it first, or give this one a folder or ORK_DATABASE_URL of its own`,
  )
}
