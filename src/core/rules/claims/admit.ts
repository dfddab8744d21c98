// Decides which ready rows may be claimed under the limits that they share. Called by the stores in the claiming transaction.

export interface RowToAdmit {
  row: number
  limits: readonly number[]
  mustPark: boolean
}

export interface LimitState {
  cap: number
  used: number
}

export interface Admission {
  claim: number[]
  /** Rows to park, each with the id of the full limit, or `PARKED_BY_PAUSE`. */
  park: { row: number; limit: number }[]
  /** Slots that the claimed rows take, by limit. */
  used: Map<number, number>
  /** Free slots, by limit, that a parked candidate did not take: as many rows parked under that limit must be unparked. */
  unpark: Map<number, number>
}

/** Stands for a full limit in `park`, and in the column `parked`, when the run is paused. */
export const PARKED_BY_PAUSE = 0
/** Value of the column `parked` of rows below a group that waits for its slots. */
export const PARKED_BY_GROUP = -1

/**
 * Decides which candidates are claimed, and which are parked. `limits` contains the limits that this transaction could lock. A candidate
 * with another limit stays ready, and the engine tries again at once.
 */
export const admit = (candidates: readonly RowToAdmit[], limits: ReadonlyMap<number, LimitState>): Admission => {
  const admission: Admission = { claim: [], park: [], used: new Map(), unpark: new Map() }
  const isFree = (id: number): boolean => {
    const limit = limits.get(id)!
    return limit.used + (admission.used.get(id) ?? 0) < limit.cap
  }
  for (const candidate of candidates) {
    if (candidate.limits.some((id) => !limits.has(id))) continue
    const full = candidate.mustPark ? PARKED_BY_PAUSE : candidate.limits.find((id) => !isFree(id))
    if (full === undefined) {
      admission.claim.push(candidate.row)
      for (const id of candidate.limits) increment(admission.used, id)
      continue
    }
    admission.park.push({ row: candidate.row, limit: full })
    for (const id of candidate.limits) if (id !== full && isFree(id)) increment(admission.unpark, id)
  }
  return admission
}

const increment = (counts: Map<number, number>, id: number): void => void counts.set(id, (counts.get(id) ?? 0) + 1)
