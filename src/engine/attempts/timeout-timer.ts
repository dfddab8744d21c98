// One timer for the timeouts of all running attempts. Most attempts end long before their timeout, and a timer for each would cost more
// than the rest of the work: here a timeout is a number, and the timer is set for the earliest one.

import type { Clock } from "../../core/model/ports.ts"

export interface TimedAttempt {
  /** Milliseconds of the monotonic clock; Infinity: no timeout. */
  at: number
  timeOut(): void
}

export class TimeoutTimer {
  readonly #clock: Clock
  readonly #all = new Set<TimedAttempt>()
  #next = Number.POSITIVE_INFINITY
  #cancel: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(attempt: TimedAttempt): void {
    this.#all.add(attempt)
    this.changed(attempt)
  }

  /** Called after `at` has changed. */
  changed({ at }: TimedAttempt): void {
    if (at >= this.#next) return
    this.#next = at
    this.#cancel?.()
    this.#cancel = this.#clock.after(Math.max(0, at - this.#clock.monotonic()), () => this.#timeOut())
  }

  remove(attempt: TimedAttempt): void {
    this.#all.delete(attempt)
    if (this.#all.size > 0) return
    this.#cancel?.()
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
  }

  #timeOut(): void {
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
    const now = this.#clock.monotonic()
    for (const attempt of this.#all) {
      if (attempt.at <= now) {
        attempt.at = Number.POSITIVE_INFINITY
        attempt.timeOut()
      } else this.changed(attempt)
    }
  }
}
