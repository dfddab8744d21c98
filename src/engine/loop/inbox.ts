// Everything that has happened and is not yet committed, in order. A start that still waits when its end arrives is folded
// into it. Chunks of expansions and of groups queue apart, so that a large fan-out does not hold up results behind it.

import type { Change } from "../../core/model/change.ts"

/** Rows that a batch may touch, and the part of it that one chunk of an expansion may take. */
export const MAX_BATCH = 1000
export const EXPAND_CHUNK = 500

type Chunk = Extract<Change, { kind: "expand" | "open_group" }>

const isChunk = (change: Change): change is Chunk => change.kind === "expand" || change.kind === "open_group"

const rowsOf = (chunk: Chunk): number => (chunk.kind === "open_group" ? chunk.rows.length : chunk.items.length)

export class Inbox {
  #changes: Change[] = []
  #expansions: Chunk[] = []
  /** Place in #changes of each start, by attempt. */
  #starts = new Map<string, number>()
  /** The same of what was last said of how far an attempt is. */
  #progress = new Map<string, number>()
  readonly #folded: (change: Change, into: Change) => void

  constructor(folded: (change: Change, into: Change) => void = () => {}) {
    this.#folded = folded
  }

  get size(): number {
    return this.#changes.length + this.#expansions.length
  }

  /** Without the expansions. */
  get plain(): number {
    return this.#changes.length
  }

  /** Chunks of expansions and of groups that wait. */
  get chunks(): number {
    return this.#expansions.length
  }

  /** Something that nobody should have to wait for; starts and progress alone may wait a little for their end. */
  get urgent(): boolean {
    return this.#expansions.length > 0 || this.#changes.length > this.#starts.size + this.#progress.size
  }

  has(attemptId: string): boolean {
    const about = (change: Change): boolean => change.attemptId === attemptId
    return this.#changes.some(about) || this.#expansions.some(about)
  }

  add(change: Change): void {
    if (isChunk(change)) {
      this.#expansions.push(change)
      return
    }
    if (change.kind === "started") {
      this.#starts.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
      return
    }
    if (change.kind === "progress") {
      this.#addProgress(change)
      return
    }
    // A start that something was said after stays before it.
    const start =
      change.kind === "wait" || this.#progress.has(change.attemptId) ? undefined : this.#starts.get(change.attemptId)
    this.#starts.delete(change.attemptId)
    this.#progress.delete(change.attemptId)
    if (start === undefined) {
      this.#changes.push(change)
      return
    }
    this.#folded(this.#changes[start]!, change)
    this.#changes[start] = change
  }

  #addProgress(change: Change): void {
    const before = this.#progress.get(change.attemptId)
    if (before === undefined) {
      this.#progress.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
      return
    }
    this.#folded(this.#changes[before]!, change)
    this.#changes[before] = change
  }

  /** The next batch, oldest first. Chunks of an expansion go one after the other: not while one may be under way. */
  nextBatch({ most = MAX_BATCH, expansions = true }: { most?: number; expansions?: boolean } = {}): Change[] {
    const chunks = expansions ? this.#takeChunks() : []
    const limit = Math.min(most, chunks.length === 0 ? MAX_BATCH : MAX_BATCH - EXPAND_CHUNK)
    const batch = this.#changes.slice(0, limit)
    this.#replace(this.#changes.slice(limit))
    batch.push(...chunks)
    return batch
  }

  /** One large chunk, or as many small ones as make no more rows. */
  #takeChunks(): Chunk[] {
    let rows = 0
    let count = 0
    for (const chunk of this.#expansions) {
      rows += rowsOf(chunk)
      if (count > 0 && rows > EXPAND_CHUNK) break
      count++
    }
    return this.#expansions.splice(0, count)
  }

  /** A batch that was not committed, or whose answer was lost: the fence makes sending it again harmless. */
  requeue(batch: readonly Change[]): void {
    const changes = this.#changes
    this.#expansions.unshift(...batch.filter(isChunk))
    this.#replace(batch.filter((change) => !isChunk(change)))
    for (const change of changes) this.add(change)
  }

  #replace(changes: Change[]): void {
    this.#changes = changes
    this.#starts.clear()
    this.#progress.clear()
    for (const [i, { kind, attemptId }] of changes.entries()) {
      if (kind === "started") this.#starts.set(attemptId, i)
      else if (kind === "progress") this.#progress.set(attemptId, i)
      else {
        this.#starts.delete(attemptId)
        this.#progress.delete(attemptId)
      }
    }
  }
}
