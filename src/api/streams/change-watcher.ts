// Reports changes of one task or job, from the server's event feed. Followed logs use it.

import type { RunId } from "../../core/model/ids.ts"
import type { LoggedEvent } from "../../store/contract/event-log.ts"
import type { EventFeed } from "../feed/event-feed.ts"

export interface WatchTarget {
  /** null: a job. */
  runId: RunId | null
  matches(event: LoggedEvent): boolean
}

export class ChangeWatcher {
  #changed = false
  #resolve: (() => void) | null = null

  /** Resolves when the watcher is live: no later change is missed. */
  static async open(feed: EventFeed, { runId, matches }: WatchTarget, signal: AbortSignal): Promise<ChangeWatcher> {
    const watcher = new ChangeWatcher()
    signal.addEventListener("abort", () => watcher.#notify(), { once: true })
    await feed.follow({
      runId,
      after: null,
      signal,
      catchUp: () => Promise.resolve(),
      deliver: (frames) => {
        if (frames.some(({ event }) => matches(event))) watcher.#notify()
      },
      onGap: () => watcher.#notify(),
    })
    return watcher
  }

  /** Resolves when there was a change since the last call, or when the signal is aborted. */
  async nextChange(): Promise<void> {
    if (!this.#changed) {
      await new Promise<void>((resolve) => {
        this.#resolve = resolve
      })
    }
    this.#changed = false
  }

  #notify(): void {
    this.#changed = true
    this.#resolve?.()
    this.#resolve = null
  }
}
