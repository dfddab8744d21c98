// Tells listeners what was committed, and lets callers wait for the end of a run with its hooks.

import type { RunId } from "../core/ids.ts"
import { runEnded } from "../core/status.ts"
import type { RunRow, Store, StoreEvent } from "../store/store.ts"

export type Listener = (event: StoreEvent) => void

export class Events {
  readonly #store: Store
  readonly #listeners = new Set<Listener>()
  readonly #waiting = new Map<RunId, Set<{ resolve: (run: RunRow) => void; reject: (error: Error) => void }>>()

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

  /** Resolves when the run has ended and so have its hooks. */
  async ended(runId: RunId): Promise<RunRow> {
    const run = await this.#finished(runId)
    if (run !== null) return run
    return await new Promise<RunRow>((resolve, reject) => {
      const waiters = this.#waiting.get(runId) ?? new Set()
      waiters.add({ resolve, reject })
      this.#waiting.set(runId, waiters)
      this.#check(runId)
    })
  }

  /** Called after each commit with the runs that closed or whose hooks ended in it. */
  settled(runIds: Iterable<RunId>): void {
    for (const runId of runIds) if (this.#waiting.has(runId)) this.#check(runId)
  }

  get awaited(): boolean {
    return this.#waiting.size > 0
  }

  #check(runId: RunId): void {
    this.#finished(runId).then(
      (run) => {
        if (run === null) return
        for (const waiter of this.#waiting.get(runId) ?? []) waiter.resolve(run)
        this.#waiting.delete(runId)
      },
      (error: Error) => {
        for (const waiter of this.#waiting.get(runId) ?? []) waiter.reject(error)
        this.#waiting.delete(runId)
      },
    )
  }

  async #finished(runId: RunId): Promise<RunRow | null> {
    const run = await this.#store.getRun(runId)
    if (run === null) throw new Error(`there is no run ${runId}`)
    return runEnded(run.status) && run.hooksLeft === 0 ? run : null
  }
}
