// An inbox in as many shards as the store accepts concurrent calls of `advance`, divided by run. A shard has at most one advance in
// flight, so that changes of one attempt, and chunks of one expansion, are committed in order. A few changes go in one batch, whatever
// their shard, so that commits stay few.

import { Inbox, MAX_BATCH } from "./inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { Store } from "../../store/contract/store.ts"

export interface InboxBatch {
  changes: Change[]
  /** Shards that the changes come from; busy until the batch is completed or requeued. */
  shards: Inbox[]
  /** Number of changes of the batch that an advance may take while this one is in flight; null: none may. */
  nextBatchSize: number | null
  /** No other batch was in flight at any time together with this one. */
  exclusive: boolean
}

export class ShardedInbox {
  readonly #shards: Inbox[]
  readonly #minBatch: number
  readonly #busy = new Map<Inbox, InboxBatch>()

  constructor({ maxConcurrent, minBatch }: Store["advanceConcurrency"], coalesced: (change: Change, into: Change) => void) {
    this.#shards = Array.from({ length: maxConcurrent }, () => new Inbox(coalesced))
    this.#minBatch = minBatch
  }

  add(change: Change): void {
    this.#shardOf(change).add(change)
  }

  #shardOf({ shardKey = 0 }: Change): Inbox {
    return this.#shards[shardKey % this.#shards.length]!
  }

  get size(): number {
    return this.#shards.reduce((sum, shard) => sum + shard.size, 0)
  }

  get chunks(): number {
    return this.#shards.reduce((sum, shard) => sum + shard.chunks, 0)
  }

  get urgent(): boolean {
    return this.#shards.some((shard) => shard.urgent)
  }

  has(attemptId: string): boolean {
    return this.#shards.some((shard) => shard.has(attemptId))
  }

  takeCommittedWaits(attemptId: string, resumes: number): Change[] {
    return this.#shards.flatMap((shard) => shard.takeCommittedWaits(attemptId, resumes))
  }

  /** No batch is in flight. */
  get idle(): boolean {
    return this.#busy.size === 0
  }

  /** A batch may be taken: any while idle, otherwise only one that is worth its own commit. */
  get canAdvance(): boolean {
    return this.idle || this.#largestIdle().size >= Math.max(1, this.#minBatch)
  }

  nextBatch(): InboxBatch {
    const together = this.idle && this.size < 2 * this.#minBatch
    const shards = together ? this.#shards : [this.#largestIdle()]
    const changes: Change[] = []
    for (const shard of shards) changes.push(...shard.nextBatch({ expansions: changes.length < MAX_BATCH / 2 }))
    const batch: InboxBatch = { changes, shards, nextBatchSize: null, exclusive: this.idle }
    for (const other of this.#busy.values()) other.exclusive = false
    for (const shard of shards) this.#busy.set(shard, batch)
    if (this.canAdvance) batch.nextBatchSize = this.#largestIdle().size
    return batch
  }

  /** Marks the shards of a committed batch as idle. */
  complete({ shards }: InboxBatch): void {
    for (const shard of shards) this.#busy.delete(shard)
  }

  /** Puts back the changes of a batch whose outcome is unknown, or that was not committed, in front of later ones. */
  requeue(batch: InboxBatch): void {
    this.complete(batch)
    for (const shard of batch.shards) shard.requeue(batch.changes.filter((change) => this.#shardOf(change) === shard))
  }

  /** Returns the largest shard without an advance in flight, or an empty one. */
  #largestIdle(): Inbox {
    const idle = this.#shards.filter((shard) => !this.#busy.has(shard))
    return idle.reduce((largest, shard) => (shard.size > largest.size ? shard : largest), idle[0] ?? EMPTY)
  }
}

const EMPTY = new Inbox()
