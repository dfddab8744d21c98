// Group commit: operations that are called in one turn of the event loop, or while another process holds the file, share one
// transaction. Each is acknowledged after COMMIT. One that throws is undone alone, by its savepoint; the others stand.
// A caller that has gathered its work for a turn already (the loop) does not wait for the end of another.

import { setTimeout as delay } from "node:timers/promises"
import { StoreUnavailable } from "../../contract/errors.ts"
import { asUnavailable, type Database, isBusy } from "./database.ts"

/** After this long without getting the lock, callers are told. */
const GIVE_UP_MS = 60_000
const FIRST_WAIT_MS = 2
const LONGEST_WAIT_MS = 100

const BEGIN = "BEGIN IMMEDIATE"
const COMMIT = "COMMIT"
const SAVEPOINT = "SAVEPOINT operation"
const RELEASE = "RELEASE operation"
const UNDO = "ROLLBACK TO operation; RELEASE operation"

interface Operation {
  work: () => unknown
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

export interface WriterOptions {
  /** Called after each commit, before anyone is answered. */
  committed: () => void
  /** What was read inside the lost transaction may not be kept. */
  rolledBack: () => void
  /** Runs the flush later, so that callers of one turn meet. */
  schedule: (flush: () => void) => void
}

export class Writer {
  /** Transactions committed so far. */
  commits = 0
  readonly #db: Database
  readonly #options: WriterOptions
  #queue: Operation[] = []
  #scheduled = false
  #flushing: Promise<void> | null = null
  #closed = false

  constructor(db: Database, options: WriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** `work` is synchronous and runs inside a transaction. */
  write<T>(work: () => T): Promise<T> {
    const answer = this.#enqueue(work)
    this.#schedule()
    return answer
  }

  /** The same, at once, with all that was called before. */
  writeNow<T>(work: () => T): Promise<T> {
    const answer = this.#enqueue(work)
    if (this.#flushing === null && !this.#closed) void this.#flush()
    return answer
  }

  #enqueue<T>(work: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable(this.#db.where, "it was closed"))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, resolve, reject })
    })
  }

  /** Lets what was called before finish, then refuses. */
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
    const answers: (() => void)[] = []
    try {
      for (const operation of operations) answers.push(this.#perform(operation, operations.length > 1))
      this.#db.run(COMMIT)
    } catch (error) {
      this.#db.rollback()
      this.#options.rolledBack()
      for (const operation of operations) operation.reject(asUnavailable(this.#db, error))
      return
    }
    this.commits++
    this.#options.committed()
    for (const answer of answers) answer()
  }

  /** Gives the answer to send after the commit. Throws when the whole transaction is lost. */
  #perform(operation: Operation, shared: boolean): () => void {
    if (shared) this.#db.run(SAVEPOINT)
    try {
      const value = operation.work() as never
      if (shared) this.#db.run(RELEASE)
      return () => operation.resolve(value)
    } catch (error) {
      if (!shared || !this.#db.inTransaction) throw error
      this.#db.exec(UNDO)
      this.#options.rolledBack()
      return () => operation.reject(asUnavailable(this.#db, error))
    }
  }
}

/** Tries again while another process holds the file, without blocking the event loop for long. */
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
