// Virtual time: a queue of events in the order of their times, then of their creation. Only the next event moves the clock. Events of
// an owner that is no longer alive are dropped.

import type { Clock } from "../../src/core/model/ports.ts"

export interface Owner {
  alive: boolean
}

interface PlannedEvent {
  at: number
  order: number
  owner: Owner | null
  run: () => void
  cancelled: boolean
}

export const START_MS = Date.parse("2026-01-01T00:00:00.000Z")

export class VirtualClock implements Clock {
  #now = START_MS
  #order = 0
  /** A binary heap. */
  readonly #queue: PlannedEvent[] = []

  /** Steps of the time of day so far. */
  #stepped = 0
  #latest = START_MS

  now(): number {
    return this.#now + this.#stepped
  }

  /** Sets the time of day forward or back; timers do not follow. */
  stepTimeOfDay(ms: number): void {
    this.#stepped += ms
    this.#latest = Math.max(this.#latest, this.now())
  }

  /** The latest time of day that the clock has shown. */
  get latest(): number {
    return this.#latest
  }

  /** Milliseconds since the start of the simulation. */
  get elapsed(): number {
    return this.#now - START_MS
  }

  monotonic(): number {
    return this.elapsed
  }

  after(ms: number, run: () => void): () => void {
    return this.#plan(ms, null, run)
  }

  /** A view of this clock whose events belong to an owner, and whose time of day is ahead by `skewMs`. */
  forOwner(owner: Owner, skewMs = 0): Clock {
    return {
      now: () => this.now() + skewMs,
      monotonic: () => this.elapsed,
      after: (ms, run) => this.#plan(ms, owner, run),
    }
  }

  #plan(ms: number, owner: Owner | null, run: () => void): () => void {
    const planned = { at: this.#now + Math.max(0, Math.ceil(ms)), order: this.#order++, owner, run, cancelled: false }
    this.#push(planned)
    return () => {
      planned.cancelled = true
    }
  }

  /** Milliseconds until the next event; null: there is none. */
  peek(): number | null {
    for (let top = this.#queue[0]; top !== undefined; top = this.#queue[0]) {
      if (!top.cancelled && (top.owner === null || top.owner.alive)) return top.at - this.#now
      this.#pop()
    }
    return null
  }

  /** Moves to the next event and runs it. Returns false when there is none. */
  step(): boolean {
    if (this.peek() === null) return false
    const next = this.#pop()
    this.#now = next.at
    this.#latest = Math.max(this.#latest, this.now())
    next.run()
    return true
  }

  #push(item: PlannedEvent): void {
    const queue = this.#queue
    let i = queue.length
    queue.push(item)
    while (i > 0) {
      const up = (i - 1) >> 1
      if (!before(item, queue[up]!)) break
      queue[i] = queue[up]!
      i = up
    }
    queue[i] = item
  }

  #pop(): PlannedEvent {
    const queue = this.#queue
    const top = queue[0]!
    const last = queue.pop()!
    if (queue.length === 0) return top
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= queue.length) break
      if (child + 1 < queue.length && before(queue[child + 1]!, queue[child]!)) child += 1
      if (!before(queue[child]!, last)) break
      queue[i] = queue[child]!
      i = child
    }
    queue[i] = last
    return top
  }
}

const before = (a: PlannedEvent, b: PlannedEvent): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)
