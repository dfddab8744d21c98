// Tells listeners what was committed, and lets callers wait for the end of a run with its hooks.

import type { RunId } from "../../core/model/ids.ts"
import { runEnded } from "../../core/model/status.ts"
import type { RunRow, Store, StoreEvent } from "../../store/contract/store.ts"

export type Listener = (event: StoreEvent) => void

interface Waiter {
  resolve: (run: RunRow) => void
  reject: (error: Error) => void
}

export class Events {
  readonly #store: Store
  readonly #listeners = new Set<Listener>()
  /** Awaited runs that have ended but for their hooks. */
  readonly #closing = new Set<RunId>()
  readonly #waiting = new Map<RunId, Set<Waiter>>()

  constructor(store: Store) {
    this.#store = store
  }

  on(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  emit(events: readonly StoreEvent[]): void {
    if (this.#listeners.size > 0) for (const event of events) for (const listener of this.#listeners) listener(event)
  }

  created({ id, status, createdAt }: RunRow): void {
    this.emit([{ type: "run", runId: id, status, at: createdAt }])
  }

  /** Resolves when the run has ended and so have its hooks. */
  waitForRun(runId: RunId): Promise<RunRow> {
    return new Promise<RunRow>((resolve, reject) => {
      const waiters = this.#waiting.get(runId) ?? new Set()
      waiters.add({ resolve, reject })
      this.#waiting.set(runId, waiters)
      this.#check(runId)
    })
  }

  /** Called after each commit. A run that closed may still have hooks: then each end of a task in it is looked at. */
  committed(closed: readonly { runId: RunId }[], events: readonly StoreEvent[]): void {
    if (this.#waiting.size === 0) return
    const touched = new Set<RunId>()
    for (const { runId } of closed) {
      if (this.#waiting.has(runId)) touched.add(runId)
    }
    if (this.#closing.size > 0) for (const { runId } of events) if (this.#closing.has(runId)) touched.add(runId)
    for (const runId of touched) this.#check(runId)
  }

  /** The answer to a commit was lost: any awaited run may have ended in it. */
  recheck(): void {
    for (const runId of this.#waiting.keys()) this.#check(runId)
  }

  /** Answers those who asked before it looks: what it reads may be older than a later question. */
  #check(runId: RunId): void {
    const asked = [...(this.#waiting.get(runId) ?? [])]
    this.#finished(runId).then(
      (run) => {
        if (run !== null) for (const waiter of this.#leave(runId, asked)) waiter.resolve(run)
      },
      (error: Error) => {
        for (const waiter of this.#leave(runId, asked)) waiter.reject(error)
      },
    )
  }

  #leave(runId: RunId, asked: Waiter[]): Waiter[] {
    const waiting = this.#waiting.get(runId)
    if (waiting === undefined) return []
    for (const waiter of asked) waiting.delete(waiter)
    if (waiting.size === 0) {
      this.#waiting.delete(runId)
      this.#closing.delete(runId)
    }
    return asked
  }

  async #finished(runId: RunId): Promise<RunRow | null> {
    const run = await this.#store.getRun(runId)
    if (run === null) throw new Error(`there is no run ${runId}`)
    if (!runEnded(run.status)) return null
    if (run.hooksPending === 0) return run
    if (!this.#waiting.has(runId) || this.#closing.has(runId)) return null
    // Its hooks may have ended between the read and now, unseen: events of the run are looked at from here on.
    this.#closing.add(runId)
    return await this.#finished(runId)
  }
}
