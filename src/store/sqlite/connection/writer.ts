// Group commit: operations called in one tick of the event loop, or while another process has locked the file, share a transaction.
// Each is acknowledged after the commit. When one of them throws, all run again, each in a savepoint, so that it is rolled back alone: a
// savepoint costs more than a short statement, and hardly any operation throws. `writeNow` commits at once, for the loop, which has
// already gathered its changes for one tick. `writeAlone` holds a transaction open while its work waits for other things; all other
// operations and reads wait for its end.

import { setTimeout as delay } from "node:timers/promises"
import { StoreUnavailable } from "../../contract/errors.ts"
import { asUnavailable, type Database, isBusy } from "./database.ts"

/** Time without the lock after which calls fail. */
const GIVE_UP_MS = 60_000
const FIRST_WAIT_MS = 2
const LONGEST_WAIT_MS = 100

const BEGIN = "BEGIN IMMEDIATE"
const COMMIT = "COMMIT"
const SAVEPOINT = "SAVEPOINT operations"
const RELEASE = "RELEASE operations"
const UNDO = "ROLLBACK TO operations; RELEASE operations"

interface Operation {
  work: () => unknown
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

export interface WriterOptions {
  /** Called before the first operation of a transaction, and before all of them run again. */
  begun: () => void
  /** Called before each commit, inside the transaction. */
  committing: () => void
  /** Called after each commit, before the operations are acknowledged. */
  committed: () => void
  /** Called after a rollback: data read inside the transaction must be dropped from caches. */
  rolledBack: () => void
  /** Schedules a flush, so that callers of one tick share it. */
  schedule: (flush: () => void) => void
}

export class Writer {
  /** Number of committed transactions. */
  commits = 0
  readonly #db: Database
  readonly #options: WriterOptions
  #queue: Operation[] = []
  #scheduled = false
  #flushing: Promise<void> | null = null
  /** Ends with the transactions of `writeAlone`. */
  #alone: Promise<unknown> | null = null
  #closed = false

  constructor(db: Database, options: WriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** Runs `work`, which is synchronous, inside a transaction. */
  write<T>(work: () => T): Promise<T> {
    const result = this.#enqueue(work)
    this.#schedule()
    return result
  }

  /** Runs `work` and all earlier operations at once. */
  writeNow<T>(work: () => T): Promise<T> {
    const result = this.#enqueue(work)
    if (this.#flushing === null && !this.#closed) void this.#flush()
    return result
  }

  /** Runs `work` in a transaction of its own, and commits when it resolves. One after the other. */
  writeAlone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable(this.#db.where, "it was closed"))
    const before = this.#alone ?? Promise.resolve()
    const result = before.then(() => this.#runAlone(work))
    const ended = result.then(
      () => {},
      () => {},
    )
    this.#alone = ended
    void ended.then(() => {
      if (this.#alone === ended) this.#alone = null
    })
    return result
  }

  async #runAlone<T>(work: () => Promise<T>): Promise<T> {
    while (this.#flushing !== null) await this.#flushing
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#flushing = promise
    try {
      await whileBusy(this.#db, () => this.#db.run(BEGIN))
      this.#options.begun()
      const value = await work()
      this.#options.committing()
      this.#db.run(COMMIT)
      this.commits++
      this.#options.committed()
      return value
    } catch (error) {
      this.#db.rollback()
      this.#options.rolledBack()
      throw asUnavailable(this.#db, error)
    } finally {
      this.#flushing = null
      resolve()
      if (this.#queue.length > 0) this.#schedule()
    }
  }

  /** Resolves when no transaction of `writeAlone` is open; null: none is. */
  get alone(): Promise<unknown> | null {
    return this.#alone
  }

  #enqueue<T>(work: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable(this.#db.where, "it was closed"))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, resolve, reject })
    })
  }

  /** Finishes the operations called before and rejects later ones. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#queue.length > 0 || this.#flushing !== null) await (this.#flushing ?? this.#flush())
  }

  #schedule(): void {
    if (this.#scheduled || this.#flushing !== null) return
    this.#scheduled = true
    this.#options.schedule(() => {
      this.#scheduled = false
      if (this.#flushing === null && this.#queue.length > 0) void this.#flush()
    })
  }

  #flush(): Promise<void> {
    const done = whileBusy(this.#db, () => this.#db.run(BEGIN)).then(
      () => {
        this.#flushing = null
        this.#commit(this.#take())
        if (this.#queue.length > 0) this.#schedule()
      },
      (error: unknown) => {
        this.#flushing = null
        for (const operation of this.#take()) operation.reject(error)
      },
    )
    this.#flushing = done
    return done
  }

  #take(): Operation[] {
    const operations = this.#queue
    this.#queue = []
    return operations
  }

  #commit(operations: Operation[]): void {
    let acknowledgements: (() => void)[]
    try {
      acknowledgements = this.#performAll(operations)
      this.#options.committing()
      this.#db.run(COMMIT)
    } catch (error) {
      this.#db.rollback()
      this.#options.rolledBack()
      for (const operation of operations) operation.reject(asUnavailable(this.#db, error))
      return
    }
    this.commits++
    this.#options.committed()
    for (const acknowledge of acknowledgements) acknowledge()
  }

  /** Runs operations and returns their acknowledgements, to call after the commit. Throws when the whole transaction is lost. */
  #performAll(operations: readonly Operation[]): (() => void)[] {
    this.#options.begun()
    if (operations.length === 1) return operations.map(perform)
    this.#db.run(SAVEPOINT)
    try {
      return operations.map(perform)
    } catch (error) {
      this.#undo(error)
      this.#options.begun()
      return operations.map((operation) => this.#performAlone(operation))
    }
  }

  #performAlone(operation: Operation): () => void {
    this.#db.run(SAVEPOINT)
    try {
      const acknowledge = perform(operation)
      this.#db.run(RELEASE)
      return acknowledge
    } catch (error) {
      this.#undo(error)
      return () => operation.reject(asUnavailable(this.#db, error))
    }
  }

  /** Rolls back to the savepoint. Throws when the whole transaction is lost. */
  #undo(error: unknown): void {
    if (!this.#db.inTransaction) throw error
    this.#db.exec(UNDO)
    this.#options.rolledBack()
  }
}

const perform = ({ work, resolve }: Operation): (() => void) => {
  const value = work() as never
  return () => resolve(value)
}

/** Retries while another process has locked the file, without blocking the event loop for long. */
export const whileBusy = async <T>(db: Database, work: () => T): Promise<T> => {
  const since = performance.now()
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw asUnavailable(db, error)
      if (performance.now() - since > GIVE_UP_MS) throw new StoreUnavailable(db.where, TOO_LONG, { cause: error })
    }
    await delay(wait)
  }
}

const TOO_LONG = `another process has been writing to it for ${GIVE_UP_MS / 1000} s: look for a stuck ork or sqlite3 process`
