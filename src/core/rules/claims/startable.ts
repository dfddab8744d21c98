// Whether the state of a run lets its ready rows start. A paused run starts none of them until it continues; a run that is being
// cancelled only gathers the outputs of containers. The close of a run ends both states, so hooks start. Both stores apply the rule in
// their claims: SQLite calls it, Postgres evaluates it in SQL (store/postgres/claim/candidates.ts), and a test compares them.

import { haveChildrenFinished, type ContainerCounts } from "../../model/container-state.ts"
import type { RunStatus } from "../../model/status.ts"

/** The part of a run that decides whether its rows start. */
export interface RunHold {
  status: RunStatus
  /** Why the run is being cancelled; null: it is not. */
  cancelling: string | null
  paused: boolean
}

/**
 * `park`: the row waits until the run continues. `leave`: the cancel of the run finishes the row; whether a claim parks it until then or
 * passes over it is up to the store.
 */
export type StartDecision = "claim" | "park" | "leave"

/** Returns whether the run is paused. The cancel of a paused run ends the pause. */
export const isPaused = ({ status, cancelling, paused }: RunHold): boolean =>
  paused && status === "running" && cancelling === null

/** Decides about a ready row that a claim meets. */
export const decideStart = (run: RunHold, row: ContainerCounts): StartDecision => {
  if (run.cancelling !== null) return haveChildrenFinished(row) ? "claim" : "leave"
  return isPaused(run) ? "park" : "claim"
}

/** Decides about a waiting row that is due. A row that must end is resumed in a paused run too. */
export const decideResume = (run: RunHold, { mustEnd }: { mustEnd: boolean }): "claim" | "park" =>
  isPaused(run) && !mustEnd ? "park" : "claim"
