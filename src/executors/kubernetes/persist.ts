// Tries a request again while that may help: a server that is busy says when, for the others the pauses grow. Bounded.

import type { Clock } from "../../core/ports.ts"
import { ApiError, isPassing } from "./api-error.ts"

const TRIES = 8
const FIRST_MS = 250
const LAST_MS = 10_000
/** No server may hold us up for longer. */
const MAX_RETRY_AFTER_MS = 60_000

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

/** `signal` ends the pauses: the next failure is then the last. */
export const persist = async <T>(clock: Clock, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> => {
  for (let tries = 0; ; tries++) {
    try {
      return await call()
    } catch (error) {
      if (!isPassing(error) || tries + 1 >= TRIES || signal?.aborted === true) throw error
      const asked = error instanceof ApiError ? error.retryAfterMs : null
      await delay(clock, asked === null ? backoff(tries) : Math.min(MAX_RETRY_AFTER_MS, asked), signal)
    }
  }
}

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
