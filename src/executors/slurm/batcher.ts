// Collects attempts that are launched together into one submission: the instances of a fan-out become one array, not a job each.

import type { Clock } from "../../core/model/ports.ts"

const WINDOW_MS = 50

interface Group<Item> {
  items: Item[]
  cancel: () => void
}

export class Batcher<Item> {
  readonly #clock: Clock
  readonly #max: () => number
  readonly #flush: (items: Item[]) => void
  readonly #groups = new Map<string, Group<Item>>()

  /** `flush` gets what was added under one key within a short time, at most `max` at once. */
  constructor(clock: Clock, max: () => number, flush: (items: Item[]) => void) {
    this.#clock = clock
    this.#max = max
    this.#flush = flush
  }

  add(key: string, item: Item): void {
    let group = this.#groups.get(key)
    if (group === undefined) {
      group = { items: [], cancel: this.#clock.after(WINDOW_MS, () => this.#close(key)) }
      this.#groups.set(key, group)
    }
    group.items.push(item)
    if (group.items.length >= this.#max()) this.#close(key)
  }

  #close(key: string): void {
    const group = this.#groups.get(key)
    if (group === undefined) return
    this.#groups.delete(key)
    group.cancel()
    this.#flush(group.items)
  }
}
