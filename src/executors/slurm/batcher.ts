// Collects items that are added under one key within a short time, so that the instances of a fan-out become one job array.

import type { Clock } from "../../core/model/ports.ts"

/** Time without a new item after which a batch is flushed. */
const IDLE_MS = 300
/** Time after which a batch is flushed although items still arrive. */
const MAX_MS = 3000

interface Batch<Item> {
  items: Item[]
  until: number
  cancel: () => void
}

export class Batcher<Item> {
  readonly #clock: Clock
  readonly #max: () => number
  readonly #flush: (items: Item[]) => void
  readonly #batches = new Map<string, Batch<Item>>()

  /** Calls `flush` with the items of one key, at most `max` of them. */
  constructor(clock: Clock, max: () => number, flush: (items: Item[]) => void) {
    this.#clock = clock
    this.#max = max
    this.#flush = flush
  }

  /** Adds an item. `expected`: number of items under this key, at which the batch is complete. */
  add(key: string, item: Item, expected: number): void {
    const now = this.#clock.monotonic()
    const batch = this.#batches.get(key) ?? { items: [], until: now + MAX_MS, cancel: () => {} }
    this.#batches.set(key, batch)
    batch.items.push(item)
    if (batch.items.length >= Math.min(expected, this.#max())) return this.#close(key, batch)
    batch.cancel()
    batch.cancel = this.#clock.after(Math.max(0, Math.min(IDLE_MS, batch.until - now)), () => this.#close(key, batch))
  }

  #close(key: string, { items, cancel }: Batch<Item>): void {
    cancel()
    this.#batches.delete(key)
    this.#flush(items)
  }
}
