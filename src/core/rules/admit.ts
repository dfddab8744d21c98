// Which of the ready candidates may go, under the limits they share. Called by the stores inside the claiming transaction.

export interface Candidate {
  row: number
  limits: readonly number[]
  paused: boolean
}

export interface LimitState {
  cap: number
  used: number
}

export interface Admission {
  claim: number[]
  /** Rows to take out of the claim index: 0 stands for a paused run, else the number of the full limit. */
  park: { row: number; limit: number }[]
  /** How many more slots of each limit are used now. */
  used: Map<number, number>
  /** Limits with free slots whose candidate was parked elsewhere: the next one parked there must be looked at. */
  unpark: Map<number, number>
}

export const PAUSED = 0

/**
 * `limits` holds the limits of the candidates that could be locked. A candidate with a limit that another transaction holds
 * just now is left where it is, ready: that transaction's end wakes the next turn.
 */
export const admit = (candidates: readonly Candidate[], limits: ReadonlyMap<number, LimitState>): Admission => {
  const admission: Admission = { claim: [], park: [], used: new Map(), unpark: new Map() }
  const free = (id: number): boolean => {
    const limit = limits.get(id)!
    return limit.used + (admission.used.get(id) ?? 0) < limit.cap
  }
  for (const candidate of candidates) {
    if (!candidate.paused && candidate.limits.some((id) => !limits.has(id))) continue
    const full = candidate.paused ? PAUSED : candidate.limits.find((id) => !free(id))
    if (full === undefined) {
      admission.claim.push(candidate.row)
      for (const id of candidate.limits) admission.used.set(id, (admission.used.get(id) ?? 0) + 1)
      continue
    }
    admission.park.push({ row: candidate.row, limit: full })
    for (const id of candidate.limits)
      if (id !== full && limits.has(id) && free(id)) admission.unpark.set(id, (admission.unpark.get(id) ?? 0) + 1)
  }
  return admission
}
