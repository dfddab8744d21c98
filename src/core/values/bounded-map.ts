// A map with a limited number of entries, for caches: an entry beyond the limit replaces the oldest one.

export class BoundedMap<K, V> extends Map<K, V> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  override set(key: K, value: V): this {
    super.set(key, value)
    if (this.size > this.#max) this.delete(this.keys().next().value!)
    return this
  }

  /** Returns the value of a key, which it creates and keeps if there is none. */
  getOrCreate(key: K, create: () => V): V {
    const found = this.get(key)
    if (found !== undefined) return found
    const value = create()
    this.set(key, value)
    return value
  }
}
