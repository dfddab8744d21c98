// Ends of short tasks are told together while others wait for a worker: each telling is a commit of whoever listens, and nothing is won by
// an early one, since every worker has its next task already. With nobody waiting an end is told at once.

import type { Clock } from "../../core/model/ports.ts"

/** The longest that an end is held back. */
const HOLD_MS = 4

export class Ends {
  readonly #clock: Clock
  #held: (() => void)[] = []
  #cancel: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves when an end may be told: once as many have come as there are tasks `waiting`, or after a while. */
  tell(waiting: number): Promise<void> {
    if (this.#held.length < waiting) {
      this.#cancel ??= this.#clock.after(HOLD_MS, () => this.flush())
      return new Promise((resolve) => void this.#held.push(resolve))
    }
    this.flush()
    return Promise.resolve()
  }

  flush(): void {
    this.#cancel?.()
    this.#cancel = null
    for (const tell of this.#held.splice(0)) tell()
  }
}
