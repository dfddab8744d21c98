// A bounded map: drops the least recently used entry beyond `max`, and every entry after `ttlMs`.

export class ExpiringCache<V> {
  readonly #max: number
  readonly #ttlMs: number
  readonly #now: () => number
  readonly #entries = new Map<string, { value: V; expiresAt: number }>()

  constructor(max: number, ttlMs: number, now: () => number) {
    this.#max = max
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
    if (this.#entries.size > this.#max) this.#entries.delete(this.#entries.keys().next().value!)
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
  }
}
