// The schema as a list of migrations, applied in order on start under an advisory lock. The table `schema_version` holds the number of
// migrations applied. The list is append-only: a released migration is never edited (migrations.lock holds its checksum, a test
// compares). `schema.txt` is the resulting schema. Both stores number their migrations alike.

import { setTimeout as delay } from "node:timers/promises"
import { SchemaTooNew } from "../../contract/errors.ts"
import { type Connection, hostOf, isCollision, isLockTimeout, type Target } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { statement } from "../connection/statement.ts"
import { INITIAL } from "./001-initial.ts"
import { ACCESS } from "./002-access.ts"
import { READABLE_RUNS } from "./003-readable-runs.ts"
import { LABELS } from "./004-labels.ts"
import { JOBS } from "./005-jobs.ts"
import { FUNCTIONS } from "./006-functions.ts"
import { PERMISSIONS } from "./007-permissions.ts"
import { REASONS } from "./008-reasons.ts"
import { STEP_ORDER } from "./009-step-order.ts"
import { TRANSACTIONS } from "./010-transactions.ts"
import { TRIGGERS } from "./011-triggers.ts"
import { PATHS_AND_PAST } from "./012-paths-and-past.ts"
import { LOGICAL_DATES } from "./013-logical-dates.ts"
import { INSERT_JOBS } from "./014-insert-jobs.ts"
import { TASK_NOTIFICATIONS } from "./015-task-notifications.ts"
import { JOB_SEARCH } from "./016-job-search.ts"
import { ENQUEUE_TEXTS } from "./017-enqueue-texts.ts"

export const MIGRATIONS = [
  INITIAL,
  ACCESS,
  READABLE_RUNS,
  LABELS,
  JOBS,
  FUNCTIONS,
  PERMISSIONS,
  REASONS,
  STEP_ORDER,
  TRANSACTIONS,
  TRIGGERS,
  PATHS_AND_PAST,
  LOGICAL_DATES,
  INSERT_JOBS,
  TASK_NOTIFICATIONS,
  JOB_SEARCH,
  ENQUEUE_TEXTS,
] as const

const LOCK = statement("migrate_lock", "SELECT pg_advisory_xact_lock(hashtextextended('ork ' || :schema, 0))")
const PREPARE = (schema: string): string => `
CREATE SCHEMA IF NOT EXISTS ${schema};
CREATE TABLE IF NOT EXISTS ${schema}.schema_version (version integer NOT NULL);`
const GET_VERSION = statement("migrate_get_version", "SELECT COALESCE(max(version), 0)::integer AS version FROM schema_version")
const SET_VERSION = statement(
  "migrate_set_version",
  "WITH old AS (DELETE FROM schema_version) INSERT INTO schema_version VALUES (:version)",
)

/** Locks of tables that other servers use are awaited so long: what they send next waits behind the migration. */
const LOCK_TIMEOUT = "SET LOCAL lock_timeout TO '3s'"
const MAX_TRIES = 20
const MAX_DELAY_MS = 2000

/**
 * Applies the missing migrations in one transaction. Servers that start at the same time wait for each other. Tries again when another
 * server, which works meanwhile, holds a lock for long or meets the migration in a deadlock.
 */
export const migrate = async (
  connections: ConnectionPool,
  target: SchemaTarget,
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> => {
  for (let tries = 1; ; tries++) {
    try {
      return await migrateOnce(connections, target, migrations)
    } catch (error) {
      if (tries === MAX_TRIES || !(isCollision(error) || isLockTimeout(error))) throw error
      await delay(Math.min(100 * 2 ** tries, MAX_DELAY_MS))
    }
  }
}

const migrateOnce = (connections: ConnectionPool, target: SchemaTarget, migrations: readonly string[]): Promise<void> =>
  transaction(connections, target, (connection) => applyMigrations(connection, target, migrations))

type SchemaTarget = Pick<Target, "url" | "schema">

/** Runs `work` in one transaction, while nobody else migrates the schema. */
export const transaction = <T>(
  connections: ConnectionPool,
  target: SchemaTarget,
  work: (connection: Connection) => Promise<T>,
): Promise<T> =>
  connections.use(async (connection) => {
    await connection.beginScript()
    try {
      await connection.run(LOCK, { schema: target.schema })
      const result = await work(connection)
      await connection.script("COMMIT")
      return result
    } catch (error) {
      if (!connection.broken) await connection.script("ROLLBACK")
      throw error
    }
  })

/** Applies the missing migrations inside the caller's transaction. */
export const applyMigrations = async (
  connection: Connection,
  target: SchemaTarget,
  migrations: readonly string[],
): Promise<void> => {
  await connection.script(PREPARE(`"${target.schema.replaceAll('"', '""')}"`))
  const found = await schemaVersion(connection)
  if (found > migrations.length) throw new SchemaTooNew(hostOf(target.url), found, migrations.length)
  if (found === migrations.length) return
  await connection.script(LOCK_TIMEOUT)
  for (const step of migrations.slice(found)) await connection.script(step)
  await connection.run(SET_VERSION, { version: migrations.length })
}

/** Returns the number of migrations that the schema has. */
export const schemaVersion = async (connection: Connection): Promise<number> =>
  (await connection.run<{ version: number }>(GET_VERSION))[0]!.version
