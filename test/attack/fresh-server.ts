// A server for one attack, with variables of its own, and a database that no other server uses.

import { createDatabase } from "../support/components/postgres.ts"
import { Target, type TargetOptions } from "./target.ts"

/** Runs an attack on a server that only this attack uses, on the same kind of store and by the same user. */
export const onFreshServer = async (
  { options }: Target,
  { env = {}, flags = [] }: Pick<TargetOptions, "env" | "flags">,
  attack: (fresh: Target) => Promise<string | null>,
): Promise<string | null> => {
  const created = options.database === "sqlite" ? null : await createDatabase()
  const fresh = await Target.start({
    ...options,
    env,
    flags: [...(options.flags ?? []), ...flags],
    database: created?.url ?? "sqlite",
  })
  try {
    return await attack(fresh)
  } finally {
    await fresh.stop()
    await created?.drop()
  }
}
