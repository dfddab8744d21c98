// Everything that has happened and is not yet committed, in order. A start that waits when its end arrives is folded into it.

import type { Change } from "../core/change.ts"

/** Rows that one change may touch; a batch stays below MAX_BATCH of them. */
const weight = (change: Change): number => (change.kind === "expand" ? Math.max(1, change.items.length) : 1)

export const MAX_BATCH = 1000

export class Inbox {
  #changes: Change[] = []
  #starts = new Map<string, number>()
  /** Changes that nobody should have to wait for; starts alone may wait a little for their end. */
  #urgent = 0

  get size(): number {
    return this.#changes.length
  }

  get urgent(): boolean {
    return this.#urgent > 0
  }

  add(change: Change): void {
    if (change.kind === "started") {
      this.#starts.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
      return
    }
    this.#urgent += 1
    const start = this.#starts.get(change.attemptId)
    if (start === undefined) {
      this.#changes.push(change)
      return
    }
    this.#starts.delete(change.attemptId)
    this.#changes[start] = change
  }

  has(attemptId: string): boolean {
    return this.#changes.some((change) => change.attemptId === attemptId)
  }

  /** The next batch, oldest first. */
  take(): Change[] {
    let total = 0
    let count = 0
    for (const change of this.#changes) {
      total += weight(change)
      if (count > 0 && total > MAX_BATCH) break
      count += 1
    }
    const batch = count === this.#changes.length ? this.#changes : this.#changes.slice(0, count)
    this.#replace(count === this.#changes.length ? [] : this.#changes.slice(count))
    return batch
  }

  /** A batch that was not committed, or whose answer was lost: the fence makes sending it again harmless. */
  putBack(batch: Change[]): void {
    const later = this.#changes
    this.#replace(batch)
    for (const change of later) this.add(change)
  }

  #replace(changes: Change[]): void {
    this.#changes = changes
    this.#starts.clear()
    this.#urgent = 0
    changes.forEach((change, i) => {
      if (change.kind === "started") this.#starts.set(change.attemptId, i)
      else this.#urgent += 1
    })
  }
}
