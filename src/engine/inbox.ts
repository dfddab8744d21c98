// Everything that has happened and is not yet committed, in order. A start that still waits when its end arrives is folded
// into it. Chunks of expansions queue apart, one a batch, so that a large fan-out does not hold up results behind it.

import type { Change } from "../core/change.ts"

/** Rows that a batch may touch, and the part of it that one chunk of an expansion may take. */
export const MAX_BATCH = 1000
export const EXPAND_CHUNK = 500

export class Inbox {
  #changes: Change[] = []
  #expansions: Change[] = []
  /** Place in #changes of each start, by attempt. */
  #starts = new Map<string, number>()
  readonly #folded: (change: Change, into: Change) => void

  constructor(folded: (change: Change, into: Change) => void = () => {}) {
    this.#folded = folded
  }

  get size(): number {
    return this.#changes.length + this.#expansions.length
  }

  /** Something that nobody should have to wait for; starts alone may wait a little for their end. */
  get urgent(): boolean {
    return this.#expansions.length > 0 || this.#changes.length > this.#starts.size
  }

  has(attemptId: string): boolean {
    const about = (change: Change): boolean => change.attemptId === attemptId
    return this.#changes.some(about) || this.#expansions.some(about)
  }

  add(change: Change): void {
    if (change.kind === "expand") {
      this.#expansions.push(change)
      return
    }
    if (change.kind === "started") {
      this.#starts.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
      return
    }
    const start = this.#starts.get(change.attemptId)
    if (start === undefined) {
      this.#changes.push(change)
      return
    }
    this.#starts.delete(change.attemptId)
    this.#folded(this.#changes[start]!, change)
    this.#changes[start] = change
  }

  /** The next batch, oldest first. Chunks of an expansion go one after the other: not while one may be under way. */
  take({ most = MAX_BATCH, expansions = true }: { most?: number; expansions?: boolean } = {}): Change[] {
    const expansion = expansions ? this.#expansions.shift() : undefined
    const limit = Math.min(most, expansion === undefined ? MAX_BATCH : MAX_BATCH - EXPAND_CHUNK)
    const batch = this.#changes.slice(0, limit)
    this.#replace(this.#changes.slice(limit))
    if (expansion !== undefined) batch.push(expansion)
    return batch
  }

  /** A batch that was not committed, or whose answer was lost: the fence makes sending it again harmless. */
  putBack(batch: readonly Change[]): void {
    const changes = this.#changes
    this.#expansions.unshift(...batch.filter((change) => change.kind === "expand"))
    this.#replace(batch.filter((change) => change.kind !== "expand"))
    for (const change of changes) this.add(change)
  }

  #replace(changes: Change[]): void {
    this.#changes = changes
    this.#starts.clear()
    changes.forEach((change, i) => change.kind === "started" && this.#starts.set(change.attemptId, i))
  }
}
