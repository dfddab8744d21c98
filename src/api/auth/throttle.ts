// Slows down the guessing of keys: an address that sends too many wrong keys in a minute has to wait. A key that has worked from that
// address before still works meanwhile, so that one client cannot lock out the others behind the same address.

import { ExpiringCache } from "../http/expiring-cache.ts"

const WINDOW_MS = 60_000
const MAX_ADDRESSES = 10_000
const TRUSTED_MS = 86_400_000

interface Failures {
  count: number
  until: number
}

export class Throttle {
  readonly #limit: number
  readonly #now: () => number
  readonly #failures: ExpiringCache<Failures>
  /** Pairs of address and key hash that have worked. */
  readonly #trusted: ExpiringCache<true>

  constructor(limit: number, now: () => number) {
    this.#limit = limit
    this.#now = now
    this.#failures = new ExpiringCache(MAX_ADDRESSES, WINDOW_MS, now)
    this.#trusted = new ExpiringCache(MAX_ADDRESSES, TRUSTED_MS, now)
  }

  /** Returns the seconds until this address may try this credential, or 0. */
  secondsToWait(address: string, hash: string): number {
    const found = this.#failures.get(address)
    if (found === undefined || found.count < this.#limit) return 0
    if (this.#trusted.get(`${address} ${hash}`) === true) return 0
    return Math.max(1, Math.ceil((found.until - this.#now()) / 1000))
  }

  recordFailure(address: string): void {
    const found = this.#failures.get(address) ?? { count: 0, until: this.#now() + WINDOW_MS }
    found.count += 1
    if (found.count === 1) this.#failures.set(address, found)
  }

  recordSuccess(address: string, hash: string): void {
    const pair = `${address} ${hash}`
    if (this.#trusted.get(pair) === undefined) this.#trusted.set(pair, true)
  }
}
