// Tells when something happened to one task or job, by the server's event feed. For followed logs.

import type { RunId } from "../../core/model/ids.ts"
import type { LoggedEvent } from "../../store/contract/event-log.ts"
import type { EventFeed } from "./event-feed.ts"

export interface WatchTarget {
  /** null: a job. */
  runId: RunId | null
  matches(event: LoggedEvent): boolean
}

export class ChangeWatcher {
  #changed = false
  #wake: (() => void) | null = null

  /** Live when it resolves: a change after that is not missed. */
  static async open(feed: EventFeed, { runId, matches }: WatchTarget, signal: AbortSignal): Promise<ChangeWatcher> {
    const watch = new ChangeWatcher()
    signal.addEventListener("abort", () => watch.#notify(), { once: true })
    await feed.follow({
      runId,
      after: null,
      signal,
      catchUp: () => Promise.resolve(),
      deliver: (frames) => {
        if (frames.some(({ event }) => matches(event))) watch.#notify()
      },
      onGap: () => watch.#notify(),
    })
    return watch
  }

  /** Resolves when there was a change since the last time, or the signal is aborted. */
  async nextChange(): Promise<void> {
    if (!this.#changed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    this.#changed = false
  }

  #notify(): void {
    this.#changed = true
    this.#wake?.()
    this.#wake = null
  }
}
