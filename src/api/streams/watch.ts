// Tells when something happened to one task or job, by the server's event feed. For followed logs.

import type { RunId } from "../../core/model/ids.ts"
import type { LoggedEvent } from "../../store/contract/event-log.ts"
import type { EventFeed } from "./event-feed.ts"

export interface Watched {
  /** null: a job. */
  runId: RunId | null
  concerns(event: LoggedEvent): boolean
}

export class Watch {
  #changed = false
  #wake: (() => void) | null = null

  /** Live when it resolves: a change after that is not missed. */
  static async open(feed: EventFeed, { runId, concerns }: Watched, signal: AbortSignal): Promise<Watch> {
    const watch = new Watch()
    signal.addEventListener("abort", () => watch.#notify(), { once: true })
    await feed.follow({
      runId,
      after: null,
      signal,
      catchUp: () => Promise.resolve(),
      deliver: (frames) => {
        if (frames.some(({ event }) => concerns(event))) watch.#notify()
      },
      gap: () => watch.#notify(),
    })
    return watch
  }

  /** Resolves when there was a change since the last time, or the signal is aborted. */
  async changed(): Promise<void> {
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
