import { serverSuite, storeSuite } from "../conformance/suite.ts"
import type { Open } from "../conformance/world.ts"
import { openSqlite, type SqliteStore } from "./sqlite.ts"
import { rejectStatementsOldNodeCannotRun } from "./testing.ts"

rejectStatementsOldNodeCannotRun()

const open =
  (path: () => string): Open<SqliteStore> =>
  async ({ clock, random }) => {
    const dead = new Set<string>()
    const store = await openSqlite({ path: path(), clock, random, isDead: (holder) => dead.has(holder.id) })
    await store.migrate()
    return { store, close: () => store.close(), kill: (holder) => void dead.add(holder) }
  }

const inMemory = open(() => ":memory:")
storeSuite("SQLite in memory", inMemory)
serverSuite("SQLite in memory", inMemory)
