// The schema as a list of migrations, applied in order on start under an advisory lock. The table `schema_version` holds the number of
// migrations applied. The list is append-only: a released migration is never edited (migrations.lock holds its checksum, a test
// compares). `schema.txt` is the resulting schema. Both stores number their migrations alike.

import { SchemaTooNew } from "../../contract/errors.ts"
import { hostOf, type Connection, statement } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { INITIAL } from "./001-initial.ts"

export const MIGRATIONS = [INITIAL] as const

const LOCK = statement("migrate_lock", "SELECT pg_advisory_xact_lock(hashtextextended('ork ' || $1, 0))")
const PREPARE = (schema: string): string => `
CREATE SCHEMA IF NOT EXISTS ${schema};
CREATE TABLE IF NOT EXISTS ${schema}.schema_version (version integer NOT NULL);`
const FOUND = statement("migrate_found", "SELECT COALESCE(max(version), 0)::integer AS version FROM schema_version")
const REACHED = statement("migrate_reached", "WITH old AS (DELETE FROM schema_version) INSERT INTO schema_version VALUES ($1)")

/** Applies the missing migrations in one transaction. Servers that start at the same time wait for each other. */
export const migrate = (
  sessions: ConnectionPool,
  target: { url: string; schema: string },
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> =>
  sessions.use(async (session) => {
    await session.script("BEGIN")
    try {
      await session.run(LOCK, [target.schema])
      await apply(session, target, migrations)
      await session.script("COMMIT")
    } catch (error) {
      if (!session.broken) await session.script("ROLLBACK")
      throw error
    }
  })

const apply = async (
  session: Connection,
  target: { url: string; schema: string },
  migrations: readonly string[],
): Promise<void> => {
  await session.script(PREPARE(`"${target.schema.replaceAll('"', '""')}"`))
  const found = (await session.run<{ version: number }>(FOUND))[0]!.version
  if (found > migrations.length) throw new SchemaTooNew(hostOf(target.url), found, migrations.length)
  if (found === migrations.length) return
  for (const step of migrations.slice(found)) await session.script(step)
  await session.run(REACHED, [migrations.length])
}
