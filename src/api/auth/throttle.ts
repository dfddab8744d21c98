// Slows down guessing: an address that sends too many wrong credentials in a minute has to wait before it may send another wrong one.
// Callers check the credential first, so that a valid one is never rejected, whatever others behind the same address send.

import { ExpiringCache } from "../shared/expiring-cache.ts"

const WINDOW_MS = 60_000
const MAX_ADDRESSES = 10_000

interface Failures {
  count: number
  until: number
}

export class Throttle {
  readonly #limit: number
  readonly #now: () => number
  readonly #failures: ExpiringCache<Failures>

  constructor(limit: number, now: () => number) {
    this.#limit = limit
    this.#now = now
    this.#failures = new ExpiringCache(MAX_ADDRESSES, WINDOW_MS, now)
  }

  /** Returns the seconds until this address may try again, or 0. */
  secondsToWait(address: string): number {
    const found = this.#failures.get(address)
    if (found === undefined || found.count < this.#limit) return 0
    return Math.max(1, Math.ceil((found.until - this.#now()) / 1000))
  }

  recordFailure(address: string): void {
    const found = this.#failures.get(address) ?? { count: 0, until: this.#now() + WINDOW_MS }
    found.count += 1
    if (found.count === 1) this.#failures.set(address, found)
  }
}
