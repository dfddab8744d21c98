// Acknowledges commits to callers that wait for their changes: a worker's report, an approval, a callback. An acknowledgement follows
// its change through the inbox, also when a later change replaces it.

import type { Change, Fence } from "../../core/model/change.ts"

interface Ack {
  /** Changes that are not committed yet. */
  pending: number
  rejected: Fence[]
  resolve: (rejected: Fence[]) => void
  reject: (error: Error) => void
}

export class CommitAcks {
  readonly #open = new Map<Change, Ack[]>()
  #closed = false

  /** Resolves when all of the changes have been through a commit, with the fences that no longer held. Rejects after `close`. */
  track(changes: readonly Change[]): Promise<Fence[]> {
    if (this.#closed) return Promise.reject(stoppingError())
    if (changes.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      const ack: Ack = { pending: changes.length, rejected: [], resolve, reject }
      for (const change of changes) this.#add(change, ack)
    })
  }

  /** Moves the acknowledgements of `change` to `into`, which replaces it in the inbox. */
  coalesced(change: Change, into: Change): void {
    const acks = this.#open.get(change)
    if (acks === undefined) return
    this.#open.delete(change)
    for (const ack of acks) this.#add(into, ack)
  }

  committed(changes: readonly Change[], rejected: readonly Fence[]): void {
    if (this.#open.size === 0) return
    const lost = new Map(rejected.map((fence) => [fence.attemptId, fence]))
    for (const change of changes) {
      const acks = this.#open.get(change)
      if (acks === undefined) continue
      this.#open.delete(change)
      for (const ack of acks) acknowledge(ack, lost.get(change.attemptId))
    }
  }

  /** Rejects all open acknowledgements: this engine commits nothing more. */
  close(): void {
    this.#closed = true
    const acks = new Set([...this.#open.values()].flat())
    this.#open.clear()
    for (const ack of acks) ack.reject(stoppingError())
  }

  #add(change: Change, ack: Ack): void {
    const acks = this.#open.get(change)
    if (acks === undefined) this.#open.set(change, [ack])
    else acks.push(ack)
  }
}

/** Counts one change of an acknowledgement as committed. `lost`: the fence of the change, if it no longer held. */
const acknowledge = (ack: Ack, lost: Fence | undefined): void => {
  ack.pending -= 1
  if (lost !== undefined && !ack.rejected.some(({ attemptId }) => attemptId === lost.attemptId)) ack.rejected.push(lost)
  if (ack.pending === 0) ack.resolve(ack.rejected)
}

const stoppingError = (): Error => new Error("the engine is stopping; retry on another server")
