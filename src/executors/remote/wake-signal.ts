// Wakes a single waiting loop when something has changed.

import type { Clock } from "../../core/model/ports.ts"

/** A notification that arrives while nobody waits is kept for the next call of `wait`. */
export class WakeSignal {
  readonly #clock: Clock
  #pending = false
  #resume: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  wake(): void {
    this.#pending = true
    this.#resume?.()
  }

  /** Resolves at the next notification, or after `ms`. */
  wait(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === undefined ? null : this.#clock.after(ms, () => this.wake())
      this.#resume = () => {
        this.#pending = false
        this.#resume = null
        cancel?.()
        resolve()
      }
      if (this.#pending) this.#resume()
    })
  }
}
