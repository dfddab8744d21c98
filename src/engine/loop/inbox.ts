// Changes that are not committed yet, in order. A start that is still here when its attempt ends is coalesced with that change, and so
// is progress with later progress. Chunks of expansions and groups queue separately, so that a large fan-out does not delay results.

import type { Change } from "../../core/model/change.ts"

/** Rows that a batch may touch. */
export const MAX_BATCH = 1000
/** Rows that a chunk of an expansion may create. */
export const EXPAND_CHUNK = 500

type Chunk = Extract<Change, { kind: "expand" | "open_group" }>

const isChunk = (change: Change): change is Chunk => change.kind === "expand" || change.kind === "open_group"

const rowsOf = (chunk: Chunk): number => (chunk.kind === "open_group" ? chunk.rows.length : chunk.items.length)

/** Returns whether a change is a wait of a row that was resumed before. */
const isRenewedWait = (change: Change): boolean => change.kind === "wait" && change.resumes !== undefined

/** Returns how often the row of a wait was resumed before it; infinite for other changes, which count whenever they were decided. */
const resumesOf = (change: Change): number => (change.kind === "wait" ? (change.resumes ?? 0) : Number.POSITIVE_INFINITY)

export class Inbox {
  #changes: Change[] = []
  #chunks: Chunk[] = []
  /** Index in #changes of the start of each attempt. */
  #starts = new Map<string, number>()
  /** Index in #changes of the latest progress of each attempt. */
  #progress = new Map<string, number>()
  /** Index in #changes of the latest wait of each resumed row, by attempt. */
  #waits = new Map<string, number>()
  readonly #coalesced: (change: Change, into: Change) => void

  /** Calls `coalesced` when `into` replaces `change`. */
  constructor(coalesced: (change: Change, into: Change) => void = () => {}) {
    this.#coalesced = coalesced
  }

  get size(): number {
    return this.#changes.length + this.#chunks.length
  }

  get chunks(): number {
    return this.#chunks.length
  }

  /** Contains more than starts and progress, which may wait a little for the end of their attempt. */
  get urgent(): boolean {
    return this.#chunks.length > 0 || this.#changes.length > this.#starts.size + this.#progress.size
  }

  has(attemptId: string): boolean {
    const isOf = (change: Change): boolean => change.attemptId === attemptId
    return this.#changes.some(isOf) || this.#chunks.some(isOf)
  }

  /** Removes and returns the waits of an attempt that precede its claim number `resumes`: they are committed. */
  takeCommittedWaits(attemptId: string, resumes: number): Change[] {
    const isCommitted = (change: Change): boolean =>
      change.attemptId === attemptId && change.kind === "wait" && (change.resumes ?? 0) < resumes
    const committed = this.#changes.filter(isCommitted)
    if (committed.length > 0) this.#setChanges(this.#changes.filter((change) => !isCommitted(change)))
    return committed
  }

  add(change: Change): void {
    if (isChunk(change)) {
      this.#chunks.push(change)
    } else if (change.kind === "started") {
      this.#starts.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
    } else if (change.kind === "progress") {
      this.#addProgress(change)
    } else {
      this.#addLast(change)
    }
  }

  #addProgress(change: Change): void {
    const previous = this.#progress.get(change.attemptId)
    if (previous === undefined) {
      this.#progress.set(change.attemptId, this.#changes.length)
      this.#changes.push(change)
    } else {
      this.#replaceAt(previous, change)
    }
  }

  /** Replaces the start of the attempt, unless progress follows it or the change is a wait, which does not record the start. */
  #addLast(change: Change): void {
    const { attemptId } = change
    const wait = this.#waits.get(attemptId)
    if (wait !== undefined) {
      const pending = this.#changes[wait]!
      // After an eviction this process may resume a row whose previous resumption is still under way, and which ends later.
      if (resumesOf(change) < resumesOf(pending)) return this.#coalesced(change, pending)
      // Decided after the row was resumed again, or by a user: the earlier wait does not count any more.
      this.#replaceAt(wait, change)
      if (!isRenewedWait(change)) this.#waits.delete(attemptId)
      return
    }
    if (isRenewedWait(change)) this.#waits.set(attemptId, this.#changes.length)
    const keepsStart = change.kind === "wait" || this.#progress.has(attemptId)
    const start = keepsStart ? undefined : this.#starts.get(attemptId)
    this.#starts.delete(attemptId)
    this.#progress.delete(attemptId)
    if (start === undefined) this.#changes.push(change)
    else this.#replaceAt(start, change)
  }

  #replaceAt(index: number, change: Change): void {
    this.#coalesced(this.#changes[index]!, change)
    this.#changes[index] = change
  }

  /** Takes the next batch, oldest first. `expansions`: with chunks. */
  nextBatch({ expansions = true }: { expansions?: boolean } = {}): Change[] {
    const chunks = expansions ? this.#nextChunks() : []
    const limit = chunks.length === 0 ? MAX_BATCH : MAX_BATCH - EXPAND_CHUNK
    const batch = this.#changes.slice(0, limit)
    this.#setChanges(this.#changes.slice(limit))
    batch.push(...chunks)
    return batch
  }

  /** Takes one large chunk, or several small ones with at most as many rows. */
  #nextChunks(): Chunk[] {
    let rows = 0
    let count = 0
    for (const chunk of this.#chunks) {
      rows += rowsOf(chunk)
      if (count > 0 && rows > EXPAND_CHUNK) break
      count++
    }
    return this.#chunks.splice(0, count)
  }

  /** Puts a batch back in front of later changes. */
  requeue(batch: readonly Change[]): void {
    const later = this.#changes
    this.#chunks.unshift(...batch.filter(isChunk))
    this.#setChanges(batch.filter((change) => !isChunk(change)))
    for (const change of later) this.add(change)
  }

  #setChanges(changes: Change[]): void {
    this.#changes = changes
    this.#starts.clear()
    this.#progress.clear()
    this.#waits.clear()
    for (const [i, change] of changes.entries()) {
      const { kind, attemptId } = change
      if (isRenewedWait(change)) this.#waits.set(attemptId, i)
      if (kind === "started") this.#starts.set(attemptId, i)
      else if (kind === "progress") this.#progress.set(attemptId, i)
      else {
        this.#starts.delete(attemptId)
        this.#progress.delete(attemptId)
      }
    }
  }
}
