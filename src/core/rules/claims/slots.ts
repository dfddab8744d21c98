// Slots of limits for rows that a change creates or opens. `stateOf` returns the state of a limit that the transaction has locked.

import type { LimitState } from "./admit.ts"

/**
 * Returns how many slots of a limit are free. A lowered cap can leave more slots used than it allows. Postgres also evaluates the
 * rule in SQL, inside the statements that unpark rows (store/postgres/claim/limits.ts).
 */
export const freeSlots = ({ cap, used }: LimitState): number => Math.max(0, cap - used)

type StateOf = (limit: number) => LimitState

/**
 * Returns how many of `wanted` new rows under these limits start ready, and the limit with the fewest free slots, under which the others
 * are parked; null when all start ready. Ready rows use no slots until they are claimed.
 */
export const readyUnderLimits = (
  limits: readonly number[],
  stateOf: StateOf,
  wanted: number,
): { ready: number; parkedUnder: number | null } => {
  let ready = wanted
  let parkedUnder: number | null = null
  for (const limit of limits) {
    const free = freeSlots(stateOf(limit))
    if (free < ready) [ready, parkedUnder] = [free, limit]
  }
  return { ready, parkedUnder }
}

/** Returns the first limit without a free slot, under which a row is parked; undefined: the row can use a slot of each. */
export const firstFull = (limits: readonly number[], stateOf: StateOf): number | undefined =>
  limits.find((limit) => freeSlots(stateOf(limit)) === 0)
