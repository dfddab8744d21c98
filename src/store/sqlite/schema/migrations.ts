// The schema as a list of migrations, applied in order on start under an exclusive lock. SQLite's `user_version` is the number of
// migrations applied. The list is append-only: a released migration is never edited (migrations.lock holds its checksum, a test
// compares). `schema.sql` is the resulting schema. Both stores number their migrations alike.

import { SchemaTooNew } from "../../contract/errors.ts"
import type { Database } from "../connection/database.ts"
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

const BEGIN = "BEGIN EXCLUSIVE"

/** Applies the missing migrations in one transaction. The caller must not hold the database's write lock. */
export const migrate = (db: Database, migrations: readonly string[] = MIGRATIONS): void => {
  if (schemaVersion(db) === migrations.length) return
  db.exec(BEGIN)
  try {
    applyMigrations(db, migrations)
    db.exec("COMMIT")
  } catch (error) {
    db.rollback()
    throw error
  }
}

/** Applies the missing migrations inside the caller's transaction. */
export const applyMigrations = (db: Database, migrations: readonly string[]): void => {
  const found = schemaVersion(db)
  if (found > migrations.length) throw new SchemaTooNew(db.where, found, migrations.length)
  for (const step of migrations.slice(found)) db.exec(step)
  db.exec(`PRAGMA user_version = ${migrations.length}`)
}

const VERSION = "PRAGMA user_version"

/** Returns the number of migrations that the database has. */
export const schemaVersion = (db: Database): number => db.get<[number]>(VERSION)![0]
