// A bounded map: drops the least recently used entry beyond `max`, and every entry after `ttlMs`.

import { BoundedMap } from "../../core/values/bounded-map.ts"

export class ExpiringCache<V> {
  readonly #ttlMs: number
  readonly #now: () => number
  readonly #entries: BoundedMap<string, { value: V; expiresAt: number }>

  constructor(max: number, ttlMs: number, now: () => number) {
    this.#entries = new BoundedMap(max)
    this.#ttlMs = ttlMs
    this.#now = now
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    if (entry.expiresAt <= this.#now()) return undefined
    this.#entries.set(key, entry)
    return entry.value
  }

  set(key: string, value: V): void {
    this.#entries.delete(key)
    this.#entries.set(key, { value, expiresAt: this.#now() + this.#ttlMs })
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
  }
}
