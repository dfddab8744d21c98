// A virtual clock that only the test advances. Timers without a delay fire as on the system clock.

import type { Clock } from "../core/model/ports.ts"

interface Timer {
  at: number
  /** Timers of the same time fire in the order in which they were set. */
  order: number
  fire: () => void
}

/** Ticks without a new timer after which nothing happens any more without time passing. */
const QUIET_TICKS = 20

export class VirtualClock implements Clock {
  readonly steady = true
  #now: number
  #timers: Timer[] = []
  #set = 0
  /** Operations under way that take real time. */
  #pending = 0

  constructor(now: number) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now
  }

  after(ms: number, fire: () => void): () => void {
    const order = ++this.#set
    if (ms <= 0) {
      const immediate = setImmediate(fire)
      return () => clearImmediate(immediate)
    }
    const timer = { at: this.#now + ms, order, fire }
    this.#timers.push(timer)
    return () => {
      const index = this.#timers.indexOf(timer)
      if (index !== -1) this.#timers.splice(index, 1)
    }
  }

  /** Lets time pass, and fires the timers that become due in their order. Between two of them, everything that they caused happens. */
  async advance(ms: number): Promise<void> {
    const target = this.#now + ms
    await this.settle()
    for (let next = this.#next(target); next !== null; next = this.#next(target)) {
      this.#timers.splice(this.#timers.indexOf(next), 1)
      this.#now = Math.max(this.#now, next.at)
      next.fire()
      await this.settle()
    }
    this.#now = target
  }

  /** Resolves when nothing goes on without time passing. */
  async settle(): Promise<void> {
    let set = this.#set
    for (let quiet = 0; quiet < QUIET_TICKS; quiet++) {
      await new Promise<void>((resolve) => setImmediate(resolve))
      if (this.#set === set && this.#pending === 0) continue
      set = this.#set
      quiet = 0
    }
  }

  /** Lets `settle` wait for an operation that takes real time. */
  async during<T>(operation: Promise<T>): Promise<T> {
    this.#pending++
    try {
      return await operation
    } finally {
      this.#pending--
      this.#set++
    }
  }

  #next(target: number): Timer | null {
    let next: Timer | null = null
    for (const timer of this.#timers)
      if (timer.at <= target && (next === null || timer.at < next.at || (timer.at === next.at && timer.order < next.order)))
        next = timer
    return next
  }
}
