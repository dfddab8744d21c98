// Counts the seeds of a campaign. A campaign that is stopped has its record in the lines of progress.

import type { Outcome } from "./simulator.ts"
import type { Seeds } from "./threads.ts"

/** Seeds between two lines of progress. */
const PROGRESS_SEEDS = 1000

type Played = Pick<Outcome, "seed" | "launches" | "failure">

export class Tally {
  readonly #seeds: Pick<Seeds, "from" | "every">
  /** Seeds that have ended before one of smaller number. */
  readonly #ahead = new Set<number>()
  #next: number
  #tries = 0
  #violations = 0
  #launches = 0

  constructor(seeds: Pick<Seeds, "from" | "every">) {
    this.#seeds = seeds
    this.#next = seeds.from
  }

  get violations(): number {
    return this.#violations
  }

  /** Counts a seed. Returns a line of progress after every 1,000 seeds, else null. */
  add({ seed, launches, failure }: Played): string | null {
    this.#tries += 1
    this.#launches += launches
    if (failure !== null) this.#violations += 1
    this.#ahead.add(seed)
    while (this.#ahead.delete(this.#next)) this.#next += this.#seeds.every
    if (this.#tries % PROGRESS_SEEDS !== 0) return null
    return `progress: ${this.#counts}, every seed from ${this.#seeds.from} to ${this.#next - this.#seeds.every} has ended`
  }

  /** Returns the last line of a campaign. */
  summary(seconds: number): string {
    return `sim: ${this.#counts}, ${this.#launches} launches, ${(this.#tries / seconds).toFixed(1)} seeds a second`
  }

  get #counts(): string {
    return `${this.#tries} tries, ${this.#violations} violations`
  }
}
