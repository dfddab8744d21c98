// Delays the results of short tasks while others wait for a worker, so that they are reported together: each report is a
// commit, and an early one gains nothing because every worker already has its next task. Without waiting tasks, a result is
// reported at once.

import type { Clock } from "../../core/model/ports.ts"

const MAX_DELAY_MS = 4

export class ReportBatcher {
  readonly #clock: Clock
  #delayed: (() => void)[] = []
  #cancel: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves when a result may be reported: once there are as many as tasks `waiting`, or after MAX_DELAY_MS. */
  ready(waiting: number): Promise<void> {
    if (this.#delayed.length < waiting) {
      this.#cancel ??= this.#clock.after(MAX_DELAY_MS, () => this.flush())
      return new Promise((resolve) => void this.#delayed.push(resolve))
    }
    this.flush()
    return Promise.resolve()
  }

  flush(): void {
    this.#cancel?.()
    this.#cancel = null
    for (const resolve of this.#delayed.splice(0)) resolve()
  }
}
