// The states of a container that has not finished.

import type { RowKind } from "./row.ts"

export interface ContainerCounts {
  kind: RowKind
  childrenCreated: number
  /** Children that have not finished, those included that are still to be created; null before the container is opened. */
  childrenPending: number | null
}

export interface ContainerRow extends ContainerCounts {
  /** The gate has created children, or a group has its slots: `started_at` is set. */
  isOpened: boolean
  childrenTotal: number | null
}

/**
 * `unopened`: the gate has not decided about it. `half_created`: the gate has created some of its children. `open`: it waits for them.
 * `to_gather`: all have finished. `without_slots`: a retried group whose children exist, and wait until it has slots again.
 */
export type ContainerState = "unopened" | "half_created" | "open" | "to_gather" | "without_slots"

/** Returns whether the gate can gather the outputs of the row's children. */
export const haveChildrenFinished = ({ kind, childrenCreated, childrenPending }: ContainerCounts): boolean =>
  kind !== "task" && childrenCreated > 0 && childrenPending === 0

export const containerState = ({ isOpened, childrenCreated, childrenTotal, childrenPending }: ContainerRow): ContainerState => {
  const pending = childrenPending ?? 0
  if (!isOpened) return pending > 0 ? "without_slots" : "unopened"
  if (pending === 0) return "to_gather"
  return childrenTotal !== null && childrenCreated < childrenTotal ? "half_created" : "open"
}
