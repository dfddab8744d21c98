// Bounds the size of the write-ahead log. SQLite's own checkpoints restart it only when no reader of another process uses it, so the
// store tries a truncating checkpoint now and then, and skips it while the file is busy.

import { statSync } from "node:fs"
import type { Database } from "./database.ts"

const EVERY_COMMITS = 256
const LARGE = 64 << 20

const TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"

/** Truncates a large log at every 256th commit. Called after each commit. */
export const boundWal = (db: Database, commits: number, large = LARGE): void => {
  if (commits % EVERY_COMMITS !== 0) return
  const size = statSync(`${db.where}-wal`, { throwIfNoEntry: false })?.size ?? 0
  if (size <= large) return
  try {
    db.get(TRUNCATE)
  } catch {
    // The commits are durable either way; a failing disk shows at the next write.
  }
}
