// One timer for the deadlines of all live attempts. Most attempts end long before theirs, so setting and clearing a timer for
// each would be the larger part of the work; here a deadline is a number, and only the earliest one is waited for.

import type { Clock } from "../../core/model/ports.ts"

export interface Deadline {
  /** Epoch milliseconds; Infinity: none. */
  at: number
  expire(): void
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
    this.moved(deadline)
  }

  /** Its `at` was changed. */
  moved({ at }: Deadline): void {
    if (at >= this.#next) return
    this.#next = at
    this.#cancel?.()
    this.#cancel = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#look())
  }

  remove(deadline: Deadline): void {
    this.#all.delete(deadline)
    if (this.#all.size > 0) return
    this.#cancel?.()
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
  }

  #look(): void {
    this.#cancel = null
    this.#next = Number.POSITIVE_INFINITY
    const now = this.#clock.now()
    for (const deadline of this.#all) {
      if (deadline.at <= now) {
        deadline.at = Number.POSITIVE_INFINITY
        deadline.expire()
      } else this.moved(deadline)
    }
  }
}
