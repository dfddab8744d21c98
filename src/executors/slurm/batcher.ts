// Collects items that are added under one key within a short time, so that the instances of a fan-out become one job array.

import type { Clock } from "../../core/model/ports.ts"

const WINDOW_MS = 50

interface Batch<Item> {
  items: Item[]
  cancel: () => void
}

export class Batcher<Item> {
  readonly #clock: Clock
  readonly #max: () => number
  readonly #flush: (items: Item[]) => void
  readonly #batches = new Map<string, Batch<Item>>()

  /** `flush` receives the items of one key, at most `max` of them. */
  constructor(clock: Clock, max: () => number, flush: (items: Item[]) => void) {
    this.#clock = clock
    this.#max = max
    this.#flush = flush
  }

  add(key: string, item: Item): void {
    let batch = this.#batches.get(key)
    if (batch === undefined) {
      batch = { items: [], cancel: this.#clock.after(WINDOW_MS, () => this.#close(key)) }
      this.#batches.set(key, batch)
    }
    batch.items.push(item)
    if (batch.items.length >= this.#max()) this.#close(key)
  }

  #close(key: string): void {
    const batch = this.#batches.get(key)
    if (batch === undefined) return
    this.#batches.delete(key)
    batch.cancel()
    this.#flush(batch.items)
  }
}
