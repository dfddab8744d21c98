// Opens what `Ork` runs on: the database, the object store and the system clock. Loaded by `Ork.open`.

import { closeSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { parseObjectAddress } from "../core/settings/object-address.ts"
import { checkNodeVersion } from "../core/settings/node-version.ts"
import { messageOf } from "../core/values/error-message.ts"
import { explainMissing } from "../core/settings/optional-packages.ts"
import { orkVersion, processName, systemClock, systemRandom } from "../engine/system.ts"
import { lazyEvaluator } from "../engine/gate/lazy-evaluator.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { openObjectStore } from "../objects/open.ts"
import { createDurableFolder } from "../objects/shared/durable-file.ts"
import { processIdentity, processIsDead } from "../store/sqlite/connection/process-identity.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { SchemaTooNew, StoreUnavailable } from "../store/contract/errors.ts"
import { checkCount } from "./checks.ts"
import { retentionLimitsOf } from "./embedded/retention-limits.ts"
import { stallMsOf } from "./stall-limit.ts"
import { NewerDatabaseError, UnavailableError } from "./errors.ts"
import { reportOpened } from "./opened-report.ts"
import type { OrkParts } from "./embedded/ork-parts.ts"
import type { OrkOptions } from "./ork.ts"
import { stderrLog } from "./stderr-log.ts"

const SQLITE = "sqlite:"
const DEFAULT_CONCURRENCY = 100
const MAX_CONCURRENCY = 10_000

export const openParts = async (options: OrkOptions): Promise<OrkParts> => {
  checkNodeVersion(process.versions)
  const { env } = process
  const database = options.database ?? (env["ORK_DATABASE_URL"] || "sqlite:.ork/ork.db")
  const objectStore = options.objects ?? (env["ORK_OBJECT_STORE"] || "file:.ork/objects")
  const concurrency = checkCount(options.concurrency ?? DEFAULT_CONCURRENCY, "concurrency", MAX_CONCURRENCY)
  const stallMs = stallMsOf(options.stallLimit)
  const retention = retentionLimitsOf(options.retention)
  const objects = await openObjects(objectStore)
  const store = await openMigrated(database)
  reportOpened({ database, objects: objectStore })
  return {
    store,
    objects,
    evaluator: lazyEvaluator(),
    clock: systemClock,
    random: systemRandom,
    log: options.log ?? stderrLog("ork"),
    process: processIdentity(),
    name: options.name ?? processName(),
    holder: "server",
    concurrency,
    stallMs,
    retention,
    version: orkVersion(),
  }
}

const openMigrated = async (database: string): Promise<ServerStore> => {
  let store: ServerStore | null = null
  try {
    store = await openStore(database)
    await store.migrate()
    return store
  } catch (error) {
    await store?.close()
    if (error instanceof SchemaTooNew) throw new NewerDatabaseError(error.message, { cause: error })
    if (!(error instanceof StoreUnavailable)) throw error
    throw new UnavailableError(`Ork.open: ${error.message}; check the option database, or ORK_DATABASE_URL`, { cause: error })
  }
}

const openStore = async (database: string): Promise<ServerStore> => {
  if (/^postgres(?:ql)?:\/\//.test(database)) {
    const { openPostgres } = await import("../store/postgres/postgres.ts").catch(explainMissing("Postgres"))
    return openPostgres({ url: database, random: systemRandom })
  }
  if (!database.startsWith(SQLITE)) {
    throw new TypeError(`database is ${JSON.stringify(database)}, but must be sqlite:FILE or postgres://…`)
  }
  const path = database.slice(SQLITE.length)
  const { openSqlite } = await import("../store/sqlite/sqlite.ts")
  if (path !== ":memory:") await createFile(path)
  return openSqlite({
    path,
    clock: systemClock,
    random: systemRandom,
    isDead: ({ process: identity }) => processIsDead(identity),
  })
}

const createFile = async (path: string): Promise<void> => {
  try {
    await createDurableFolder(dirname(resolve(path)))
    // SQLite gives its other files the mode of this one.
    closeSync(openSync(path, "a", 0o600))
  } catch (error) {
    throw new StoreUnavailable(path, `${messageOf(error)}; use a file in a folder that can be written`, { cause: error })
  }
}

const openObjects = async (given: string): Promise<ObjectStore> => {
  const address = parseObjectAddress(given)
  if (address === null) throw new TypeError(`objects is ${JSON.stringify(given)}, but must be file:FOLDER, s3://… or gs://…`)
  return openObjectStore(address)
}
