// A clock that tests move.

import type { Clock } from "../../core/model/ports.ts"

/** Moves only by `pass`, which fires timers in order and waits for the promises that they settle. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000
  #stepped = 0
  #timers: { at: number; fn: () => void }[] = []

  now(): number {
    return this.#now + this.#stepped
  }

  monotonic(): number {
    return this.#now
  }

  /** Sets the time of day forward or back; timers do not follow. */
  stepTimeOfDay(ms: number): void {
    this.#stepped += ms
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + ms, fn }
    this.#timers.push(timer)
    return () => void (this.#timers = this.#timers.filter((one) => one !== timer))
  }

  get waiting(): number {
    return this.#timers.length
  }

  async pass(ms: number): Promise<void> {
    const until = this.#now + ms
    for (;;) {
      await settle()
      const next = this.#timers.toSorted((a, b) => a.at - b.at)[0]
      if (next === undefined || next.at > until) break
      this.#timers = this.#timers.filter((one) => one !== next)
      this.#now = Math.max(this.#now, next.at)
      next.fn()
    }
    this.#now = until
    await settle()
  }
}

export const settle = async (): Promise<void> => {
  for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve))
}
