// Clocks that are wrong: the time of day is set forward or back in some worlds, and the clocks of servers that share a Postgres differ.
// Uses random streams of its own, which leaves the rest of the seed as it is.

import { Rng } from "../rng.ts"

/** The time of day is set forward, or with a negative `ms` back, `at` milliseconds after the start. */
export interface ClockStep {
  at: number
  ms: number
}

const SHARE = 0.15
const LAST_STEP_MS = 90_000

export const makeClockSteps = (seed: number): ClockStep[] => {
  const rng = new Rng("clock steps", seed)
  if (!rng.chance(SHARE)) return []
  return Array.from({ length: rng.int(1, 3) }, () => {
    const ms = rng.pick([rng.int(1, 3000), rng.int(1000, 30_000), rng.int(60_000, 600_000)])
    return { at: rng.int(0, LAST_STEP_MS), ms: rng.chance(0.5) ? ms : -ms }
  })
}

/** Returns by how much the clock of a server is ahead. */
export const makeSkew = (seed: number, engine: number): number => {
  const rng = new Rng("skew", seed, engine)
  return rng.chance(0.5) ? rng.int(-20_000, 20_000) : 0
}
