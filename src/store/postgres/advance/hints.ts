// Hints that a loop keeps from one turn for the next: what it expects to find, so that a turn sends its statements without waiting for
// a poll. Hints affect the number of round trips only: every turn polls, and handles what it did not expect.

export interface LoopHints {
  /** Timers are due or runs are being cancelled: the next turn handles them before it claims. */
  pendingWork: boolean
  /** Rows may be ready for the gate: the next turn claims them at once. */
  gateReady: boolean
  /** Local time (epoch milliseconds) when the next timer is due; null: none is set. */
  dueAt: number | null
  /** The last turn claimed all rows that were ready: the next one may take one round trip (one-round-trip.ts). */
  readyDrained: boolean
}

/** Hints of the first turn: anything may be pending. */
export const FIRST_HINTS: LoopHints = { pendingWork: true, gateReady: true, dueAt: null, readyDrained: false }

/** State of the store at the end of a turn. */
export interface TurnState {
  localNow: number
  /** Milliseconds until the next timer is due; 0 or less: it is due. Null: none is set. */
  dueMs: number | null
  /** Number of runs that are being cancelled. */
  cancelling: number
  /** Whether rows were ready for the gate. */
  gateReady: boolean
  gatesClaimed: number
  /** Number of rows that the turn was allowed to claim for the gate. */
  gateMaxClaims: number
  /** Whether the turn claimed all rows for work that were ready. */
  readyDrained: boolean
}

export const nextHints = (previous: LoopHints, observed: TurnState): LoopHints => {
  const { localNow, dueMs, cancelling, gateReady, gatesClaimed, gateMaxClaims, readyDrained } = observed
  return {
    pendingWork: cancelling > 0 || (dueMs !== null && dueMs <= 0),
    // A turn that could not claim for the gate leaves the expectation to the next one.
    gateReady: gateReady || gatesClaimed > 0 || (previous.gateReady && gateMaxClaims <= 0),
    dueAt: dueMs === null ? null : localNow + dueMs,
    readyDrained,
  }
}

/** Returns whether the next turn handles timers and cancels before it claims. */
export const expectsPendingWork = ({ pendingWork, dueAt }: LoopHints, localNow: number): boolean =>
  pendingWork || (dueAt !== null && localNow >= dueAt)

/** Returns whether the next turn may take one round trip: nothing but its changes is expected. */
export const allowsOneRoundTrip = (hints: LoopHints, localNow: number): boolean =>
  hints.readyDrained && !hints.gateReady && !expectsPendingWork(hints, localNow)
