import { existsSync, readFileSync } from "node:fs"
import { serverSuite, storeSuite, wakeSuite } from "../conformance/suite.ts"
import type { Open } from "../conformance/world.ts"
import { openSqlite, type SqliteStore } from "./sqlite.ts"
import { rejectStatementsOldNodeCannotRun, tempFile } from "./testing.ts"

rejectStatementsOldNodeCannotRun()

/** Returns the number in the wake file, which counts the wake-ups of the process that wrote it last. */
const wakesOf = (path: string): number =>
  existsSync(`${path}.wake`) ? Number(readFileSync(`${path}.wake`, "utf8").split(" ")[1]) : 0

const open =
  (newPath: () => string): Open<SqliteStore> =>
  async ({ clock, random }) => {
    const dead = new Set<string>()
    const path = newPath()
    const store = await openSqlite({ path, clock, random, isDead: (holder) => dead.has(holder.id) })
    await store.migrate()
    const kill = (holder: string): void => void dead.add(holder)
    return { store, close: () => store.close(), kill, wakes: async () => wakesOf(path) }
  }

const inMemory = open(() => ":memory:")
storeSuite("SQLite in memory", inMemory)
serverSuite("SQLite in memory", inMemory)
wakeSuite("SQLite", open(tempFile))
