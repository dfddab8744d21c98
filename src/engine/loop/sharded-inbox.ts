// What waits to be committed, in as many parts as the store can work on at once, by run. A part has at most one turn under way:
// what is said of one attempt, and the chunks of one expansion, follow each other. A little of everything goes as one turn,
// so that commits stay few.

import { Inbox, MAX_BATCH } from "./inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { Store } from "../../store/contract/store.ts"

export interface Load {
  changes: Change[]
  /** The parts that it is taken from: theirs alone until it is settled. */
  parts: Inbox[]
  /** Changes that are left for a turn that follows at once. */
  rest: number
  /** No other turn was under way at any time of this one. */
  alone: boolean
}

export class Halves {
  readonly #parts: Inbox[]
  readonly #minBatch: number
  readonly #busy = new Map<Inbox, Load>()

  constructor({ maxConcurrent, minBatch }: Store["advanceConcurrency"], folded: (change: Change, into: Change) => void) {
    this.#parts = Array.from({ length: maxConcurrent }, () => new Inbox(folded))
    this.#minBatch = minBatch
  }

  add(change: Change): void {
    this.#parts[(change.shardKey ?? 0) % this.#parts.length]!.add(change)
  }

  get size(): number {
    return this.#parts.reduce((sum, part) => sum + part.size, 0)
  }

  get chunks(): number {
    return this.#parts.reduce((sum, part) => sum + part.chunks, 0)
  }

  get urgent(): boolean {
    return this.#parts.some((part) => part.urgent)
  }

  has(attemptId: string): boolean {
    return this.#parts.some((part) => part.has(attemptId))
  }

  /** Nothing is under way. */
  get still(): boolean {
    return this.#busy.size === 0
  }

  /** A turn may begin: the first, whatever there is, or one beside others that is worth its commit. */
  get open(): boolean {
    return this.still || this.#largest().size >= Math.max(1, this.#minBatch)
  }

  take(): Load {
    const all = this.still && this.size < 2 * this.#minBatch
    const parts = all ? this.#parts : [this.#largest()]
    const changes: Change[] = []
    for (const part of parts) changes.push(...part.take({ expansions: changes.length < MAX_BATCH / 2 }))
    const load: Load = { changes, parts, rest: 0, alone: this.still }
    for (const other of this.#busy.values()) other.alone = false
    for (const part of parts) this.#busy.set(part, load)
    if (this.open) load.rest = this.#largest().size
    return load
  }

  /** It was answered. `back`: not committed, or nobody knows; the fence makes sending it again harmless. */
  settle({ changes, parts }: Load, { back }: { back: boolean }): void {
    for (const part of parts) this.#busy.delete(part)
    if (!back) return
    if (parts.length === 1) parts[0]!.putBack(changes)
    else for (const change of changes) this.add(change)
  }

  /** Of those with no turn under way; an empty one if there is none. */
  #largest(): Inbox {
    const idle = this.#parts.filter((part) => !this.#busy.has(part))
    return idle.reduce((most, part) => (part.size > most.size ? part : most), idle[0] ?? NOTHING)
  }
}

const NOTHING = new Inbox()
