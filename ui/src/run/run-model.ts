// Loads the state of one run and keeps it up to date: the graph first, which can be drawn at once, then the instances in large pages.
// Events that come meanwhile wait until all is there. Made by use-run.ts; the world is handed in, for tests.

import type { InstanceSummary, OrkEvent, Page, RunGraph } from "../api/types.ts"
import { type Applied, applyEvents } from "./events.ts"
import { addInstances, completeState, newState, type RunState } from "./state.ts"

export interface RunSource {
  graph(signal: AbortSignal): Promise<RunGraph>
  instances(cursor: string | null, signal: AbortSignal): Promise<Page<InstanceSummary>>
}

/** What a page shows of a larger run than this are the counts, and these instances. */
export const MOST_INSTANCES = 200_000
/** Events that wait for the end of a load; with more the load is begun again. */
const MOST_WAITING = 100_000

export class RunModel {
  readonly #source: RunSource
  readonly #listeners = new Set<() => void>()
  #waiting: OrkEvent[] | null = null
  #abort = new AbortController()
  /** Of the load that is under way. */
  #loading: AbortSignal | null = null
  #again = false
  #runEnded = false
  state: RunState | null = null
  error: unknown = null
  /** Grows with every change; what the views are drawn from. */
  version = 0

  constructor(source: RunSource) {
    this.#source = source
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Everything anew; what is shown stays until it is there. While a load is under way, once more after it. */
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
    } while (cursor !== null && count < MOST_INSTANCES)
    if (cursor === null) completeState(state)
    const missed: OrkEvent[] = this.#waiting ?? []
    this.#waiting = null
    this.state = state
    this.#take(missed)
  }

  /** `runEnded`: whether the run had ended before these. */
  apply(events: readonly OrkEvent[], runEnded: boolean): void {
    this.#runEnded = runEnded
    if (this.#waiting !== null) {
      this.#waiting.push(...events)
      if (this.#waiting.length > MOST_WAITING) this.#again = true
      return
    }
    if (this.#take(events)) this.#changed()
  }

  stop(): void {
    this.#abort.abort()
    this.#abort = new AbortController()
    this.#waiting = null
  }

  #take(events: readonly OrkEvent[]): boolean {
    if (this.state === null || events.length === 0) return false
    const applied: Applied = applyEvents(this.state, events, this.#runEnded)
    // What a retry sets back, and how attempts that were tried again had ended, events do not tell.
    if (applied.restarted || (applied.ended && !this.#runEnded)) void this.load()
    this.#runEnded = applied.ended
    return applied.changed
  }

  #changed(): void {
    this.version += 1
    for (const listener of this.#listeners) listener()
  }
}
