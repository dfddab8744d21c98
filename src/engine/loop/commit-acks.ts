// Answers to those who must know that a change of theirs is committed: a worker's report, an approval, a callback. A receipt
// follows its change through the inbox, also when that is folded into a later one.

import type { Change, Fence } from "../../core/model/change.ts"

interface Ack {
  left: number
  refused: Fence[]
  resolve: (refused: Fence[]) => void
  reject: (error: Error) => void
}

export class CommitAcks {
  readonly #open = new Map<Change, Ack[]>()
  #closed = false

  /** Resolves with the fences that no longer held, when all of these changes have been through a commit. */
  track(changes: readonly Change[]): Promise<Fence[]> {
    if (this.#closed) return Promise.reject(stopped())
    if (changes.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      const receipt: Ack = { left: changes.length, refused: [], resolve, reject }
      for (const change of changes) this.#add(change, receipt)
    })
  }

  /** `next` was put in the place of `change`, and stands for it from now on. */
  coalesced(change: Change, next: Change): void {
    const receipts = this.#open.get(change)
    if (receipts === undefined) return
    this.#open.delete(change)
    for (const receipt of receipts) this.#add(next, receipt)
  }

  /** A batch was committed. */
  committed(changes: readonly Change[], refused: readonly Fence[]): void {
    if (this.#open.size === 0) return
    const lost = new Map(refused.map((fence) => [fence.attemptId, fence]))
    for (const change of changes) {
      const receipts = this.#open.get(change)
      if (receipts === undefined) continue
      this.#open.delete(change)
      for (const receipt of receipts) settle(receipt, lost.get(change.attemptId))
    }
  }

  /** Nothing more is committed here. */
  close(): void {
    this.#closed = true
    const receipts = new Set([...this.#open.values()].flat())
    this.#open.clear()
    for (const receipt of receipts) receipt.reject(stopped())
  }

  #add(change: Change, receipt: Ack): void {
    const known = this.#open.get(change)
    if (known === undefined) this.#open.set(change, [receipt])
    else known.push(receipt)
  }
}

const settle = (receipt: Ack, lost: Fence | undefined): void => {
  receipt.left -= 1
  if (lost !== undefined && !receipt.refused.some(({ attemptId }) => attemptId === lost.attemptId)) receipt.refused.push(lost)
  if (receipt.left === 0) receipt.resolve(receipt.refused)
}

const stopped = (): Error => new Error("the engine is stopping; ask again elsewhere")
