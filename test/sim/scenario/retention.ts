// Removes old runs again and again in some worlds, while users retry them. Uses a random stream of its own, which leaves the rest of the
// seed as it is.

import { Rng } from "../rng.ts"
import type { RunSpec, UserAction } from "./scenario.ts"

/** Runs that ended this long ago are removed, every `everyMs`. */
export interface Retention {
  olderThanMs: number
  everyMs: number
}

const SHARE = 0.25
const LAST_RETRY_MS = 60_000

export const makeRetention = (seed: number): Retention | null => {
  const rng = new Rng("retention", seed)
  return rng.chance(SHARE) ? { olderThanMs: rng.pick([1000, 3000, 10_000]), everyMs: rng.int(500, 5000) } : null
}

/** Returns retries of all runs. */
export const moreRetries = (seed: number, runs: readonly RunSpec[]): UserAction[] => {
  const rng = new Rng("more retries", seed)
  return runs.flatMap(({ at }, run) =>
    Array.from({ length: rng.int(0, 5) }, (): UserAction => {
      const how = rng.pick(["failed", "from", "instance"] as const)
      return { at: at + rng.int(0, LAST_RETRY_MS), run, kind: "retry", how, pick: rng.int(0, 1_000_000) }
    }),
  )
}
