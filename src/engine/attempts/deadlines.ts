// One timer for the deadlines of all running attempts. Most attempts end long before their deadline, and a timer for each would cost more
// than the rest of the work: here a deadline is a number, and the timer is set for the earliest one.

import type { Clock } from "../../core/model/ports.ts"

export interface Deadline {
  /** Milliseconds of the monotonic clock; Infinity: no deadline. */
  at: number
  timeOut(): void
}

export class Deadlines {
  readonly #clock: Clock
  readonly #all = new Set<Deadline>()
  #next = Number.POSITIVE_INFINITY
  #cancel: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(deadline: Deadline): void {
    this.#all.add(deadline)
    this.changed(deadline)
  }

  /** Called after `at` has changed. */
  changed({ at }: Deadline): void {
    if (at >= this.#next) return
    this.#next = at
    this.#cancel?.()
    this.#cancel = this.#clock.after(Math.max(0, at - this.#clock.monotonic()), () => this.#timeOut())
  }

  remove(deadline: Deadline): void {
    this.#all.delete(deadline)
    if (this.#all.size > 0) return
    this.#cancel?.()
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
  }

  #timeOut(): void {
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
    const now = this.#clock.monotonic()
    for (const deadline of this.#all) {
      if (deadline.at <= now) {
        deadline.at = Number.POSITIVE_INFINITY
        deadline.timeOut()
      } else this.changed(deadline)
    }
  }
}
