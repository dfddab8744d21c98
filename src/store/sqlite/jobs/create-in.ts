// Creates jobs in a transaction of the user: in one that Ork has begun for a function, or in one of a handle of `node:sqlite` on the same
// file, by statements on that handle.

import { realpathSync, statSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { UnusableTransaction } from "../../contract/errors.ts"
import type { TransactionStore } from "../../contract/transactions.ts"
import { appendEvents } from "../advance/event-log.ts"
import { InFlightRows } from "../cache/in-flight.ts"
import { RunInfoCache } from "../cache/run-info.ts"
import { Workflows } from "../cache/workflows.ts"
import { Database } from "../connection/database.ts"
import { SqliteTransaction } from "../functions/sql-transaction.ts"
import { newTx, type StoreContext, type Tx } from "../tx.ts"
import { createJobs } from "./create.ts"

interface Deps {
  context: StoreContext
  path: string
  /** Runs an operation inside the writer's transaction. */
  perform<T>(work: (tx: Tx) => T): T
  /** Wakes all processes on the file, this one included. */
  wakeAll(): void
}

export const createJobsIn = ({ context, path, perform, wakeAll }: Deps): TransactionStore["createJobsIn"] => {
  const contexts = new WeakMap<DatabaseSync, StoreContext>()
  const contextOf = (handle: DatabaseSync): StoreContext => {
    const known = contexts.get(handle)
    if (known !== undefined) return known
    const db = new Database(path, { handle })
    const { clock, random } = context
    const opened = { db, clock, random, workflows: new Workflows(db), runs: new RunInfoCache(db), inFlight: new InFlightRows() }
    contexts.set(handle, opened)
    return opened
  }
  return async (transaction, jobs, onConflict) => {
    if (transaction instanceof SqliteTransaction) {
      if (!transaction.open) throw new UnusableTransaction("tx has ended: enqueue before the function returns")
      return perform((tx) => createJobs(tx, jobs, onConflict))
    }
    if (!(transaction instanceof DatabaseSync)) throw new UnusableTransaction(NO_HANDLE)
    checkHandle(transaction, path)
    const tx = newTx(contextOf(transaction))
    const created = createJobs(tx, jobs, onConflict)
    tx.limits.save()
    tx.queues.save()
    appendEvents(tx.db, [tx])
    afterTransaction(tx.db, wakeAll)
    return created
  }
}

const NO_HANDLE =
  "tx is not a transaction of SQLite: pass the tx of a txTask or step.tx, or a DatabaseSync of node:sqlite on the same file after BEGIN"

const checkHandle = (handle: DatabaseSync, path: string): void => {
  let file: string
  try {
    const [main] = handle.prepare("PRAGMA database_list").all() as { name: string; file: string }[]
    file = main?.file ?? ""
  } catch (error) {
    throw new UnusableTransaction("tx cannot be used: its database is closed", { cause: error })
  }
  if (path === ":memory:" || file === "" || !isSameFile(file, path)) {
    throw new UnusableTransaction(
      `tx is a transaction on ${file || "a database in memory"}, but Ork has opened ${path}: use the same file`,
    )
  }
  if (!new Database(path, { handle }).inTransaction) {
    throw new UnusableTransaction("tx is not in a transaction: call exec('BEGIN IMMEDIATE') on the database first")
  }
}

const isSameFile = (a: string, b: string): boolean => {
  const [one, other] = [statSync(realpathSync(a)), statSync(realpathSync(b))]
  return one.dev === other.dev && one.ino === other.ino
}

const FIRST_CHECK_MS = 1
const LONGEST_CHECK_MS = 50

/** Calls `ended` after a transaction. SQLite does not report the commit of another handle: looks for the end of its transaction. */
const afterTransaction = (db: Database, ended: () => void): void => {
  const check = (waitMs: number): void => {
    setTimeout(() => {
      if (isInTransaction(db)) check(Math.min(2 * waitMs, LONGEST_CHECK_MS))
      else ended()
    }, waitMs).unref()
  }
  check(FIRST_CHECK_MS)
}

/** Returns whether a transaction is open. A closed database has none. */
const isInTransaction = (db: Database): boolean => {
  try {
    return db.inTransaction
  } catch {
    return false
  }
}
