// Opens what a power loss has left, with the real store, and compares it with what clients were told.

import { createHash } from "node:crypto"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { isDeepStrictEqual } from "node:util"
import type { RunId } from "../../../src/core/model/ids.ts"
import { messageOf } from "../../../src/core/values/error-message.ts"
import { systemClock, systemRandom } from "../../../src/engine/system.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { openSqlite } from "../../../src/store/sqlite/sqlite.ts"
import type { Told } from "./workload.ts"

export interface Remains {
  /** Data folder of the server. */
  dataDir: string
  /** Files by path. */
  files: Map<string, Buffer>
}

/** Returns what is wrong with the remains; nothing if all that was told is there. `scratch`: a folder for the database. */
export const findViolations = async (remains: Remains, told: readonly Told[], scratch: string): Promise<string[]> => {
  const path = writeDatabase(remains, scratch)
  if (path === null) return told.length === 0 ? [] : ["the database is gone"]
  try {
    const store = await openSqlite({ path, clock: systemClock, random: systemRandom })
    try {
      await store.migrate()
      const problems = await compare(store, remains, told)
      await store.getSecret()
      return [...problems, ...checkFile(path, remains)]
    } finally {
      await store.close()
    }
  } catch (error) {
    return [`the database cannot be opened: ${messageOf(error)}`]
  }
}

/** Files of the database that survive; SQLite creates its shared memory again. */
const DATABASE_FILES = ["ork.db", "ork.db-wal", "ork.db-journal"]

const writeDatabase = ({ dataDir, files }: Remains, scratch: string): string | null => {
  rmSync(scratch, { recursive: true, force: true })
  mkdirSync(scratch, { recursive: true })
  for (const name of DATABASE_FILES) {
    const bytes = files.get(join(dataDir, name))
    if (bytes !== undefined) writeFileSync(join(scratch, name), bytes)
  }
  return files.has(join(dataDir, "ork.db")) ? join(scratch, "ork.db") : null
}

const compare = async (store: ServerStore, remains: Remains, told: readonly Told[]): Promise<string[]> => {
  const keys = new Set((await store.listKeys()).map(({ id }) => id))
  const problems: (string | null)[] = []
  for (const each of told) {
    switch (each.kind) {
      case "ready":
        problems.push(fileText(remains, "admin.key") === `${each.key}\n` ? null : "admin.key is not the key that was created")
        break
      case "run":
        problems.push((await store.getRun(each.id as RunId)) === null ? `run ${each.id} is gone` : null)
        break
      case "success":
        problems.push(await compareRun(store, remains, each))
        break
      case "job":
        problems.push((await store.getJob(each.id)) === null ? `job ${each.id} is gone` : null)
        break
      case "completed": {
        const status = (await store.getJob(each.id))?.status
        problems.push(status === "COMPLETED" ? null : `job ${each.id} was completed and is ${status}`)
        break
      }
      case "key":
        problems.push(keys.has(each.id) ? null : `key ${each.id} is gone`)
    }
  }
  return problems.filter((problem) => problem !== null)
}

const fileText = ({ dataDir, files }: Remains, name: string): string | undefined => files.get(join(dataDir, name))?.toString()

const objectBytes = ({ dataDir, files }: Remains, key: string): Buffer | undefined => files.get(join(dataDir, "objects", key))

const compareRun = async (
  store: ServerStore,
  remains: Remains,
  { id, outputs }: Extract<Told, { kind: "success" }>,
): Promise<string | null> => {
  const runId = id as RunId
  const status = (await store.getRun(runId))?.status
  if (status !== "success") return `run ${id} was successful and is ${status}`
  const found: Record<string, unknown> = {}
  for (const { name, path, output } of await store.listTasks({ runId, limit: 100 })) {
    const bytes = output !== null && "key" in output ? objectBytes(remains, output.key) : undefined
    found[`${name} ${path}`] = output === null ? null : "inline" in output ? output.inline : parse(bytes)
  }
  return isDeepStrictEqual(found, outputs) ? null : `run ${id} has other outputs than its client was told`
}

const parse = (bytes: Buffer | undefined): unknown => {
  try {
    return JSON.parse(String(bytes)) as unknown
  } catch {
    return `not JSON: ${bytes?.length} bytes`
  }
}

const OUTPUTS = "SELECT output_key AS key, output_bytes AS bytes FROM tasks WHERE output_key IS NOT NULL"
const BUNDLES = "SELECT DISTINCT bundle FROM versions WHERE bundle IS NOT NULL"

/** Checks the structure of the file, and that every object that it refers to is there. */
const checkFile = (path: string, remains: Remains): string[] => {
  const db = new DatabaseSync(path)
  try {
    const [integrity] = db.prepare("PRAGMA integrity_check").all() as { integrity_check: string }[]
    const outputs = db.prepare(OUTPUTS).all() as { key: string; bytes: number }[]
    const bundles = db.prepare(BUNDLES).all() as { bundle: string }[]
    return [
      ...(integrity?.integrity_check === "ok" ? [] : [`${basename(path)} is damaged: ${integrity?.integrity_check}`]),
      ...outputs.filter(({ key, bytes }) => objectBytes(remains, key)?.length !== bytes).map(({ key }) => `${key} is gone`),
      ...bundles
        .filter(({ bundle }) => sha256(objectBytes(remains, `bundles/${bundle}/files.tar`)) !== bundle)
        .map(({ bundle }) => `the bundle ${bundle} is gone`),
    ]
  } finally {
    db.close()
  }
}

const sha256 = (bytes: Buffer = Buffer.alloc(0)): string => createHash("sha256").update(bytes).digest("hex")
