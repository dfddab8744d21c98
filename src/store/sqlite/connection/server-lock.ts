// The lock of the one server of a database file: an exclusive transaction on `<db>.server`, a file of its own. The kernel holds it on the
// file and releases it with the process, so that it also holds between containers, whose process ids mean nothing to each other.

import { closeSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"

const SQLITE_BUSY = 5

export interface ServerLock {
  /** Returns false while another server holds the lock. */
  acquire(): boolean
  release(): void
}

export const serverLock = (path: string): ServerLock => {
  let db: DatabaseSync | null = null
  return {
    acquire() {
      if (db !== null) return true
      // SQLite gives its journal the mode of this file.
      closeSync(openSync(`${path}.server`, "a", 0o600))
      const opened = new DatabaseSync(`${path}.server`)
      try {
        opened.exec("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE")
      } catch (error) {
        opened.close()
        if (error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY) return false
        throw error
      }
      db = opened
      return true
    },
    release() {
      db?.close()
      db = null
    },
  }
}
