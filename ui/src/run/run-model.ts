// Loads the state of one run and keeps it up to date: first the graph, which can be drawn at once, then the instances in large pages.
// Events wait until everything is loaded. Created by use-run.ts; dependencies are injected for tests.

import type { InstanceSummary, OrkEvent, Page, RunGraph } from "../api/types.ts"
import { type Applied, applyEvents } from "./events.ts"
import { addInstances, completeState, newState, type RunState } from "./state.ts"

export interface RunSource {
  graph(signal: AbortSignal): Promise<RunGraph>
  instances(cursor: string | null, signal: AbortSignal): Promise<Page<InstanceSummary>>
}

/** Largest number of loaded instances; a larger run shows these and the counts. */
export const MAX_INSTANCES = 200_000
/** Largest number of waiting events; with more the load restarts. */
const MAX_WAITING = 100_000
/** Delay before the labels of new instances are loaded, in milliseconds. */
const LABELS_MS = 2000

export class RunModel {
  readonly #source: RunSource
  readonly #listeners = new Set<() => void>()
  #waiting: OrkEvent[] | null = null
  #abort = new AbortController()
  /** Aborts the current load. */
  #loading: AbortSignal | null = null
  #again = false
  #timer: ReturnType<typeof setTimeout> | null = null
  #runEnded = false
  state: RunState | null = null
  error: unknown = null
  /** Increases with every change. */
  version = 0

  constructor(source: RunSource) {
    this.#source = source
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Reloads everything; the old state stays visible. During a load, schedules another one after it. */
  async load(): Promise<void> {
    const { signal } = this.#abort
    if (this.#loading === signal) {
      this.#again = true
      return
    }
    this.#loading = signal
    try {
      do {
        this.#again = false
        await this.#loadOnce(signal)
      } while (this.#again && !signal.aborted)
      this.error = null
    } catch (error) {
      if (!signal.aborted) this.error = error
    }
    if (signal.aborted) return
    this.#loading = null
    this.#changed()
  }

  async #loadOnce(signal: AbortSignal): Promise<void> {
    this.#waiting = []
    const state = newState(await this.#source.graph(signal))
    if (this.state === null) {
      this.state = state
      this.#changed()
    }
    let cursor: string | null = null
    let count = 0
    do {
      const page: Page<InstanceSummary> = await this.#source.instances(cursor, signal)
      addInstances(state, page.items)
      count += page.items.length
      cursor = page.next_cursor
    } while (cursor !== null && count < MAX_INSTANCES)
    if (cursor === null) completeState(state)
    const missed: OrkEvent[] = this.#waiting ?? []
    this.#waiting = null
    this.state = state
    this.#take(missed)
  }

  /** Applies events. `runEnded` is true if the run had finished before these events. */
  apply(events: readonly OrkEvent[], runEnded: boolean): void {
    this.#runEnded = runEnded
    if (this.#waiting !== null) {
      this.#waiting.push(...events)
      if (this.#waiting.length > MAX_WAITING) this.#again = true
      return
    }
    if (this.#take(events)) this.#changed()
  }

  stop(): void {
    this.#abort.abort()
    this.#abort = new AbortController()
    this.#waiting = null
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #take(events: readonly OrkEvent[]): boolean {
    if (this.state === null || events.length === 0) return false
    const applied: Applied = applyEvents(this.state, events, this.#runEnded)
    // Events contain neither what a retry reset nor the results of earlier attempts.
    if (applied.restarted || (applied.ended && !this.#runEnded)) void this.load()
    else if (applied.expanded) this.#loadLater()
    this.#runEnded = applied.ended
    return applied.changed
  }

  /** Loads the labels of new instances. Fan-outs inside groups may be expanded many times in a row. */
  #loadLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      void this.load()
    }, LABELS_MS)
  }

  #changed(): void {
    this.version += 1
    for (const listener of this.#listeners) listener()
  }
}
