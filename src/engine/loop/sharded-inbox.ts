// What waits to be committed, in as many parts as the store can work on at once, by run. A part has at most one turn under way:
// what is said of one attempt, and the chunks of one expansion, follow each other. A little of everything goes as one turn,
// so that commits stay few.

import { Inbox, MAX_BATCH } from "./inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { Store } from "../../store/contract/store.ts"

export interface InboxBatch {
  changes: Change[]
  /** The parts that it is taken from: theirs alone until it is settled. */
  shards: Inbox[]
  /** Changes that are left for a turn that follows at once. */
  remaining: number
  /** No other turn was under way at any time of this one. */
  exclusive: boolean
}

export class ShardedInbox {
  readonly #shards: Inbox[]
  readonly #minBatch: number
  readonly #busy = new Map<Inbox, InboxBatch>()

  constructor({ maxConcurrent, minBatch }: Store["advanceConcurrency"], folded: (change: Change, into: Change) => void) {
    this.#shards = Array.from({ length: maxConcurrent }, () => new Inbox(folded))
    this.#minBatch = minBatch
  }

  add(change: Change): void {
    this.#shards[(change.shardKey ?? 0) % this.#shards.length]!.add(change)
  }

  get size(): number {
    return this.#shards.reduce((sum, part) => sum + part.size, 0)
  }

  get chunks(): number {
    return this.#shards.reduce((sum, part) => sum + part.chunks, 0)
  }

  get urgent(): boolean {
    return this.#shards.some((part) => part.urgent)
  }

  has(attemptId: string): boolean {
    return this.#shards.some((part) => part.has(attemptId))
  }

  /** Nothing is under way. */
  get idle(): boolean {
    return this.#busy.size === 0
  }

  /** A turn may begin: the first, whatever there is, or one beside others that is worth its commit. */
  get canAdvance(): boolean {
    return this.idle || this.#largest().size >= Math.max(1, this.#minBatch)
  }

  nextBatch(): InboxBatch {
    const all = this.idle && this.size < 2 * this.#minBatch
    const parts = all ? this.#shards : [this.#largest()]
    const changes: Change[] = []
    for (const part of parts) changes.push(...part.nextBatch({ expansions: changes.length < MAX_BATCH / 2 }))
    const load: InboxBatch = { changes, shards: parts, remaining: 0, exclusive: this.idle }
    for (const other of this.#busy.values()) other.exclusive = false
    for (const part of parts) this.#busy.set(part, load)
    if (this.canAdvance) load.remaining = this.#largest().size
    return load
  }

  /** It was answered. `back`: not committed, or nobody knows; the fence makes sending it again harmless. */
  complete({ changes, shards }: InboxBatch, { back }: { back: boolean }): void {
    for (const part of shards) this.#busy.delete(part)
    if (!back) return
    if (shards.length === 1) shards[0]!.requeue(changes)
    else for (const change of changes) this.add(change)
  }

  /** Of those with no turn under way; an empty one if there is none. */
  #largest(): Inbox {
    const idle = this.#shards.filter((part) => !this.#busy.has(part))
    return idle.reduce((most, part) => (part.size > most.size ? part : most), idle[0] ?? NOTHING)
  }
}

const NOTHING = new Inbox()
