// Claims that wait for a slot of this process. While attempts end as soon as they start, a commit costs more than the work between two
// commits: the engine then claims more than it has slots for, so that fewer commits carry more. Claims that cannot start soon are
// released, for other processes and for work of a higher priority.

import type { Clock } from "../core/model/ports.ts"
import type { Claim } from "../store/contract/store.ts"

/** Claims of one commit. More of them would block the event loop for longer. */
const MAX_CLAIMS = 500
/** Time within which claims should start, judged by the last ones. */
const START_WITHIN_MS = 25
/** Time after which claims that have not started are released. */
const MAX_WAIT_MS = 50

export class ClaimAhead {
  readonly #clock: Clock
  readonly #release: (claim: Claim) => void
  #waiting: Claim[] = []
  /** The last commit with claims: how many they were, and when they were started. */
  #last = { claims: 0, at: 0 }
  #cancelTimer: (() => void) | null = null

  constructor(clock: Clock, release: (claim: Claim) => void) {
    this.#clock = clock
    this.#release = release
  }

  /** Number of claims that wait for a slot. */
  get size(): number {
    return this.#waiting.length
  }

  has(attemptId: string): boolean {
    return this.#waiting.some((claim) => claim.attemptId === attemptId)
  }

  /** Called with the number of claims of each commit, before they start. */
  claimed(claims: number): void {
    this.#last = { claims, at: this.#clock.monotonic() }
  }

  /**
   * Returns how many claims to make beyond these slots, which are all free: the last claims have ended. `reserved`: claims that other
   * commits in progress may return.
   */
  extra(slots: number, reserved: number): number {
    const { claims, at } = this.#last
    if (claims + reserved < slots) return 0
    const startable = Math.floor((claims * START_WITHIN_MS) / (this.#clock.monotonic() - at))
    return Math.max(0, Math.min(2 * (claims + reserved), startable, MAX_CLAIMS) - slots)
  }

  add(claim: Claim): void {
    this.#waiting.push(claim)
    this.#cancelTimer ??= this.#clock.after(MAX_WAIT_MS, () => this.releaseAll())
  }

  /** Takes the claim that has waited longest. */
  next(): Claim | undefined {
    const first = this.#waiting.shift()
    if (this.#waiting.length === 0) this.#stopTimer()
    return first
  }

  releaseAll(): void {
    this.release(() => true)
  }

  /** Releases the claims that match. */
  release(matches: (claim: Claim) => boolean): void {
    const { released = [], kept = [] } = Object.groupBy(this.#waiting, (claim) => (matches(claim) ? "released" : "kept"))
    this.#waiting = kept
    if (kept.length === 0) this.#stopTimer()
    for (const claim of released) this.#release(claim)
  }

  #stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
  }
}
