// The store of the API in tests: SQLite in a folder, or with ORK_API_STORE=postgres a schema of its own in a real Postgres.

import { join } from "node:path"
import { createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import { STORE_READS } from "../http/ports.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { openPostgres } from "../../store/postgres/postgres.ts"
import { openSqlite } from "../../store/sqlite/sqlite.ts"

let database: Promise<TestDatabase> | null = null
let schemas = 0

export const openTestStore = async (folder: string): Promise<ServerStore> => {
  const store =
    process.env["ORK_API_STORE"] === "postgres"
      ? await openPostgres({ url: await url(), random: systemRandom, schema: `api ${++schemas}` })
      : await openSqlite({ path: join(folder, "ork.db"), clock: systemClock, random: systemRandom })
  await store.migrate()
  return store
}

/** Members of the store that the server uses outside of handlers: keys, sessions, the audit log and the event feed. */
const SERVER_MEMBERS = [
  "appendAudit",
  "createKey",
  "findKey",
  "onWake",
  "readEvents",
  "removeKey",
  "rotateKey",
  "touchKeys",
  "createSession",
  "findSession",
  "removeSession",
]

/** Wraps the store that an API server gets: every change that bypasses the services throws. */
export const rejectChanges = (store: ServerStore): ServerStore =>
  new Proxy(store, {
    get(target, name) {
      if (![...STORE_READS, ...SERVER_MEMBERS].includes(String(name))) {
        throw new Error(`use a service of the engine in place of store.${String(name)}`)
      }
      const member: unknown = Reflect.get(target, name)
      return typeof member === "function" ? (member.bind(target) as unknown) : member
    },
  })

/** Returns the URL of the database of this test file. It is removed with the server of the test run. */
const url = async (): Promise<string> => {
  database ??= createDatabase()
  return (await database).url
}
