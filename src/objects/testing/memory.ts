// An object store in memory, for tests with remote stores. Passes the conformance suite.

import { checkDeletedPrefix, checkKey, checkPrefix } from "../shared/keys.ts"
import type { ObjectStore, ObjectRange } from "../objects.ts"
import { probe } from "../shared/probe.ts"

const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

export class MemoryObjectStore implements ObjectStore {
  readonly kind = "s3"
  readonly objects = new Map<string, Buffer>()
  /** If set, every write fails with it. */
  broken: Error | null = null
  /** Number of `join` calls. */
  joins = 0

  async put(key: string, data: Uint8Array | string): Promise<void> {
    checkKey(key)
    await Promise.resolve()
    if (this.broken !== null) throw this.broken
    this.objects.set(key, Buffer.from(data as string))
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const pieces: Uint8Array[] = []
    for await (const piece of data) pieces.push(piece)
    const all = Buffer.concat(pieces)
    await this.put(key, all)
    return { bytes: all.length }
  }

  async join(key: string, ranges: readonly ObjectRange[]): Promise<void> {
    this.joins += 1
    await this.put(
      key,
      Buffer.concat(ranges.map(({ key: source, start, end }) => this.objects.get(source)!.subarray(start, end))),
    )
  }

  async get(key: string): Promise<Uint8Array | null> {
    await Promise.resolve()
    return this.objects.get(checkKey(key)) ?? null
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    await Promise.resolve()
    return this.objects.get(checkKey(key))?.subarray(start, end) ?? null
  }

  async size(key: string): Promise<number | null> {
    await Promise.resolve()
    return this.objects.get(checkKey(key))?.length ?? null
  }

  async list(prefix: string, { after = "", limit = 1000 }: { after?: string; limit?: number } = {}): Promise<string[]> {
    await Promise.resolve()
    checkPrefix(prefix)
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && compare(key, after) > 0)
    return keys.toSorted(compare).slice(0, limit)
  }

  async deletePrefix(prefix: string): Promise<void> {
    checkDeletedPrefix(prefix)
    for (const key of await this.list(prefix, { limit: Infinity })) this.objects.delete(key)
  }

  check(): Promise<void> {
    return probe(this)
  }
}
