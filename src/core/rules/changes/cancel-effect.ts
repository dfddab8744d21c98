// Decides what the cancel of a run, or the timeout of a group, does to a pending row. store/shared/cancellable.ts states the rule in SQL
// for both stores, and tests compare the two.

import { type ContainerRow, containerState } from "../../model/container-state.ts"

/** `cancel`: the row is cancelled. `stop_creating`: it waits only for the children that exist. `leave`: its children are cancelled first. */
export type CancelEffect = "cancel" | "stop_creating" | "leave"

/** Returns what the cancel of a run, or the timeout of a group, does to a pending row below it that nobody has claimed. */
export const cancelEffect = (row: ContainerRow): CancelEffect => {
  if (row.kind === "task") return "cancel"
  const state = containerState(row)
  return state === "unopened" ? "cancel" : state === "half_created" ? "stop_creating" : "leave"
}
