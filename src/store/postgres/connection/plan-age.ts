// Decides when a connection plans its statements anew. Postgres keeps a plan as long as no statistics change; while a table is nearly
// empty, it plans a scan of a whole index where it should plan a lookup.

/** Number of transactions after which plans are discarded, the factor by which that number grows, and their greatest age. */
const REPLAN = { first: 16, factor: 4, everyMs: 15_000 }

/** Size of `tasks` from which on plans for an almost empty table cost time: about 500 rows. */
const GROWN_BYTES = 512 * 1024

export class PlanAge {
  #transactions = 0
  #replanAt = REPLAN.first
  #plannedAt = performance.now()
  /** Smallest known size of `tasks` since the plans were discarded: a VACUUM that emptied it made Postgres plan anew. */
  #leastBytes = Number.POSITIVE_INFINITY
  #outgrown = false

  /** Counts a transaction. Returns whether to discard the plans before it. */
  countTransaction(): boolean {
    this.#transactions += 1
    const now = performance.now()
    const isRound = this.#transactions >= this.#replanAt
    if (!isRound && !this.#outgrown && now - this.#plannedAt < REPLAN.everyMs) return false
    if (isRound) this.#replanAt *= REPLAN.factor
    this.#plannedAt = now
    this.#leastBytes = Number.POSITIVE_INFINITY
    this.#outgrown = false
    return true
  }

  /** The plans may be for a small table: its size is wanted after every transaction. */
  get isSmall(): boolean {
    return this.#leastBytes < GROWN_BYTES
  }

  /** Notes the size of `tasks`. */
  noteSize(bytes: number): void {
    this.#outgrown ||= this.isSmall && bytes >= GROWN_BYTES
    this.#leastBytes = Math.min(this.#leastBytes, bytes)
  }
}
