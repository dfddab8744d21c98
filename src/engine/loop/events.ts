// Notifies listeners of committed events, and lets callers wait for the end of a run and its hooks.

import type { Output } from "../../core/model/change.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isRunClosed } from "../../core/model/status.ts"
import type { RunRow, Store, StoreEvent } from "../../store/contract/store.ts"

/** Output of a job, a function (`task` is null), or the task that ended a run. */
export interface EndResult {
  task: string | null
  output: Output
}

/** `result`: of the job or run that has succeeded with the event, if this engine ran the task that ended it. */
export type Listener = (event: StoreEvent, result?: EndResult) => void

interface Waiter {
  resolve: (run: RunRow) => void
  reject: (error: Error) => void
}

const NO_RESULTS: ReadonlyMap<string, EndResult> = new Map()

/** Returns the id of the job or run that has succeeded with the event; null: none. */
const succeededIn = ({ type, status, jobId, runId }: StoreEvent): string | null => {
  if (type === "job") return status === "COMPLETED" ? jobId : null
  return type === "run" && status === "success" ? runId : null
}

export class Events {
  readonly #store: Pick<Store, "getRun">
  readonly #listeners = new Set<Listener>()
  readonly #recoveryListeners = new Set<() => void>()
  readonly #waiters = new Map<RunId, Set<Waiter>>()
  /** Awaited runs that are closed, but whose hooks have not finished. */
  readonly #runningHooks = new Set<RunId>()

  constructor(store: Pick<Store, "getRun">) {
    this.#store = store
  }

  /** Adds a listener. The returned function removes it. */
  on(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Adds a listener that is called when the store is available again: events of commits whose outcome is unknown were not emitted. */
  onRecovered(listener: () => void): void {
    this.#recoveryListeners.add(listener)
  }

  /** `results`: of jobs and runs that have succeeded, by id. */
  emit(events: readonly StoreEvent[], results: ReadonlyMap<string, EndResult> = NO_RESULTS): void {
    const listeners = [...this.#listeners]
    if (listeners.length === 0) return
    for (const event of events) {
      const succeeded = results.size === 0 ? null : succeededIn(event)
      const result = succeeded === null ? undefined : results.get(succeeded)
      for (const listener of listeners) listener(event, result)
    }
  }

  /** Resolves when the run and its hooks have ended. */
  waitForRun(runId: RunId): Promise<RunRow> {
    return new Promise<RunRow>((resolve, reject) => {
      const waiters = this.#waiters.get(runId) ?? new Set()
      waiters.add({ resolve, reject })
      this.#waiters.set(runId, waiters)
      this.#check(runId)
    })
  }

  /** Called after each commit. Checks awaited runs that closed, and closed ones with running hooks after each of their events. */
  committed(closed: readonly { runId: RunId }[], events: readonly StoreEvent[]): void {
    if (this.#waiters.size === 0) return
    const touched = new Set<RunId>()
    for (const { runId } of closed) if (this.#waiters.has(runId)) touched.add(runId)
    if (this.#runningHooks.size > 0) for (const { runId } of events) if (this.#runningHooks.has(runId)) touched.add(runId)
    for (const runId of touched) this.#check(runId)
  }

  /** Checks all awaited runs: another process, or a commit whose outcome is unknown, may have closed them. */
  recheck(): void {
    for (const runId of this.#waiters.keys()) this.#check(runId)
  }

  recovered(): void {
    this.recheck()
    for (const listener of this.#recoveryListeners) listener()
  }

  /** Resolves only those who waited before the read: it may return an older state than a later waiter has seen. */
  #check(runId: RunId): void {
    const waiters = [...(this.#waiters.get(runId) ?? [])]
    this.#readEnded(runId).then(
      (run) => {
        if (run !== null) for (const waiter of this.#remove(runId, waiters)) waiter.resolve(run)
      },
      (error: Error) => {
        for (const waiter of this.#remove(runId, waiters)) waiter.reject(error)
      },
    )
  }

  #remove(runId: RunId, waiters: Waiter[]): Waiter[] {
    const all = this.#waiters.get(runId)
    if (all === undefined) return []
    for (const waiter of waiters) all.delete(waiter)
    if (all.size === 0) {
      this.#waiters.delete(runId)
      this.#runningHooks.delete(runId)
    }
    return waiters
  }

  async #readEnded(runId: RunId): Promise<RunRow | null> {
    const run = await this.#store.getRun(runId)
    if (run === null) throw new Error(`there is no run ${runId}`)
    if (!isRunClosed(run.status)) return null
    if (run.hooksPending === 0) return run
    if (!this.#waiters.has(runId) || this.#runningHooks.has(runId)) return null
    // Reads again: the hooks may have finished before events of this run were observed.
    this.#runningHooks.add(runId)
    return await this.#readEnded(runId)
  }
}
