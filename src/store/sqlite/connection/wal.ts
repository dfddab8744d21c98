// Keeps the write-ahead log at a useful size. A store that commits often gives it early the size that it reaches between two
// checkpoints: a commit that makes the file grow takes two to three times as long, because the file system journals the new size, and
// waits for the writes of other programs with it. SQLite's own checkpoints restart a log only when no reader of another process uses
// it, so the store tries a truncating checkpoint of a large one now and then. Both are skipped while the file is busy.

import { closeSync, fdatasync, openSync, statSync, writeSync } from "node:fs"
import type { Database } from "./database.ts"

const EVERY_COMMITS = 256
const LARGE = 64 << 20

/** A process with fewer commits, such as most commands, leaves the log as it is. */
const RESERVE_AFTER = 8
/** A checkpoint starts at 1,000 pages of 4 KiB, and the commit that reaches them may write a few more. */
const RESERVED = 1024 * (4096 + 24)

/** One buffer for all writes, which is faster than one of their total size. */
const ZEROS = Buffer.alloc(64 << 10)

const TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"

/** Reserves and bounds the log, each at one of 256 commits. Called after each commit. */
export const sizeWal = (db: Database, commits: number, large = LARGE): void => {
  if (commits % EVERY_COMMITS === 0) boundWal(db, large)
  else if (commits % EVERY_COMMITS === RESERVE_AFTER) reserveWal(db)
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

const boundWal = (db: Database, large: number): void => {
  if (sizeOf(walOf(db)) <= large) return
  try {
    db.get(TRUNCATE)
  } catch {
    // The commits are durable either way; a failing disk shows at the next write.
  }
}

/** Appends zeros, which SQLite overwrites and, like all that follows the last commit, never reads as one. */
const reserveWal = (db: Database): void => {
  const path = walOf(db)
  if (db.where === ":memory:" || sizeOf(path) >= RESERVED) return
  try {
    // Nobody else appends to the log or truncates it meanwhile.
    db.run("BEGIN IMMEDIATE")
    append(path, RESERVED)
  } catch {
    // The log grows with its commits.
  } finally {
    db.rollback()
  }
}

const append = (path: string, size: number): void => {
  const file = openSync(path, "r+")
  try {
    for (let end = sizeOf(path); end < size; end += ZEROS.length)
      writeSync(file, ZEROS, 0, Math.min(ZEROS.length, size - end), end)
  } catch (error) {
    closeSync(file)
    throw error
  }
  // Begun now, so that the next commit has less to wait for.
  fdatasync(file, () => closeSync(file))
}

const walOf = ({ where }: Database): string => `${where}-wal`
