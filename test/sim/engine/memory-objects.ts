// An object store in memory, for one seed.

import type { ObjectStore } from "../../../src/objects/objects.ts"

export class MemoryObjects implements ObjectStore {
  readonly kind = "file"
  readonly #objects = new Map<string, Uint8Array>()

  async put(key: string, data: Uint8Array | string): Promise<void> {
    this.#objects.set(key, Buffer.from(data))
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const parts: Uint8Array[] = []
    for await (const part of data) parts.push(part)
    const whole = Buffer.concat(parts)
    this.#objects.set(key, whole)
    return { bytes: whole.length }
  }

  async get(key: string): Promise<Uint8Array | null> {
    return this.#objects.get(key) ?? null
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    return this.#objects.get(key)?.subarray(start, end) ?? null
  }

  async size(key: string): Promise<number | null> {
    return this.#objects.get(key)?.length ?? null
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    const { after = "", limit = 1000 } = options
    const keys = [...this.#objects.keys()].filter((key) => key.startsWith(prefix) && key > after)
    return keys.toSorted().slice(0, limit)
  }

  async deletePrefix(prefix: string): Promise<void> {
    for (const key of this.#objects.keys()) if (key.startsWith(prefix)) this.#objects.delete(key)
  }

  async check(): Promise<void> {}

  /** Reads an object synchronously, for the checks. */
  text(key: string): string {
    return Buffer.from(this.#objects.get(key) ?? "null").toString()
  }
}
