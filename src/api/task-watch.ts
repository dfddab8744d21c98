// Tells when something happened to one task, by the server's event feed. For followed logs.

import type { RunId } from "../core/ids.ts"
import type { EventFeed } from "./event-feed.ts"

export class TaskWatch {
  #changed = false
  #wake: (() => void) | null = null

  /** Live when it resolves: a change after that is not missed. */
  static async open(
    feed: EventFeed,
    task: { runId: RunId; name: string; path: string },
    signal: AbortSignal,
  ): Promise<TaskWatch> {
    const watch = new TaskWatch()
    signal.addEventListener("abort", () => watch.#notify(), { once: true })
    await feed.follow({
      runId: task.runId,
      after: null,
      signal,
      catchUp: () => Promise.resolve(),
      deliver: (frames) => {
        if (frames.some(({ event }) => event.type === "run" || (event.task === task.name && event.path === task.path))) {
          watch.#notify()
        }
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
