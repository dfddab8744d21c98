// Timers of thousands of items: those that are due within the same short time share one, so that the process wakes up a few times a second
// instead of for each item.

import type { Clock } from "../../core/model/ports.ts"

/** Timers cannot wait longer. */
const MAX_TIMER_MS = 2 ** 31 - 1

export class SharedTimers<Item> {
  readonly #clock: Clock
  readonly #fire: (item: Item) => void
  /** By the instant at which they are due, on the monotonic clock. */
  readonly #timers = new Map<number, { items: Item[]; cancel: () => void }>()

  constructor(clock: Clock, fire: (item: Item) => void) {
    this.#clock = clock
    this.#fire = fire
  }

  /** Number of timers. */
  get size(): number {
    return this.#timers.size
  }

  /** Fires the item after the delay, at most `slackMs` later. There is no way to cancel one item. */
  add(item: Item, delayMs: number, slackMs: number): void {
    const now = this.#clock.monotonic()
    const at = Math.ceil((now + Math.min(delayMs, MAX_TIMER_MS - slackMs)) / slackMs) * slackMs
    const timer = this.#timers.get(at)
    if (timer !== undefined) timer.items.push(item)
    else this.#timers.set(at, { items: [item], cancel: this.#clock.after(at - now, () => this.#fireAll(at)) })
  }

  cancelAll(): void {
    for (const { cancel } of this.#timers.values()) cancel()
    this.#timers.clear()
  }

  #fireAll(at: number): void {
    const items = this.#timers.get(at)?.items ?? []
    this.#timers.delete(at)
    for (const item of items) this.#fire(item)
  }
}
