// Pauses between tries, and a bound on how much happens at once, for executors that ask a service elsewhere.

import type { Clock } from "../../core/model/ports.ts"

const FIRST_MS = 250
const LAST_MS = 10_000

/** Ends early when the signal does. */
export const delay = (clock: Clock, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const done = (): void => {
      cancel()
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal?.addEventListener("abort", done, { once: true })
  })

/** Doubles up to a bound; with some chance, so that many do not come back at once. */
export const backoff = (tries: number, last = LAST_MS): number =>
  Math.min(last, FIRST_MS * 2 ** Math.min(tries, 16)) * (0.75 + Math.random() / 2)

/** So many at a time; the others wait in order. */
export class Turnstile {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(size: number) {
    this.#free = size
  }

  async pass<T>(call: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await call()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }
}

/** One waits until it rings, or for so long. A ring while nobody waits is kept for the next who does. */
export class Bell {
  readonly #clock: Clock
  #rung = false
  #answer: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  ring(): void {
    this.#rung = true
    this.#answer?.()
  }

  wait(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === undefined ? null : this.#clock.after(ms, () => this.ring())
      this.#answer = () => {
        this.#rung = false
        this.#answer = null
        cancel?.()
        resolve()
      }
      if (this.#rung) this.#answer()
    })
  }
}
