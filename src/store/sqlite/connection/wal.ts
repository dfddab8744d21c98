// Keeps the write-ahead log from growing without bound: SQLite's own checkpoints start over at its beginning only when no reader
// of another process is in the way. Now and then a truncating one is tried; a busy file is left for the next time.

import { statSync } from "node:fs"
import type { Database } from "./database.ts"

const EVERY_COMMITS = 256
const LARGE = 64 << 20

const TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"

/** Called after each commit. */
export const boundWal = (db: Database, commits: number, large = LARGE): void => {
  if (commits % EVERY_COMMITS !== 0) return
  const size = statSync(`${db.where}-wal`, { throwIfNoEntry: false })?.size ?? 0
  if (size <= large) return
  try {
    db.get(TRUNCATE)
  } catch {
    // The commits stand whatever becomes of the log; a disk in trouble shows at the next write.
  }
}
