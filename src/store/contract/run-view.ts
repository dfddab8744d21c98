// What a picture of a run needs, and no more: the page draws thousands of tasks from it, so rows carry neither input, output nor
// error. Read by the API; in the order of nodes and paths, which both databases have an index for.

import type { RunId } from "../../core/model/ids.ts"
import type { AttemptState, TaskStatus } from "../../core/model/status.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { RowKind } from "./store.ts"

export interface RunViewStore {
  /** Instances only (no containers), by node, then by path as text; `after` is the place of the last one seen. */
  listInstances(query: { runId: RunId; after?: InstanceKey; limit: number }): Promise<InstanceRow[]>
  /** How many rows each node has of each kind and status, with their first start and last end. */
  countRows(runId: RunId): Promise<RowCount[]>
}

export interface InstanceKey {
  node: number
  path: string
}

interface AttemptTimes {
  dispatchedAt: string | null
  startedAt: string | null
  finishedAt: string | null
}

export interface PastAttempt extends AttemptTimes {
  attempt: number
  state: AttemptState
}

export interface InstanceRow extends InstanceKey, AttemptTimes {
  status: TaskStatus
  attempt: number
  availableAt: string | null
  /** What it waits for without a slot. */
  waitingOn: WaitingOn["kind"] | null
  /** Attempts before the one in the row, oldest first. */
  past: PastAttempt[]
}

export interface RowCount {
  node: number
  kind: RowKind
  status: TaskStatus
  count: number
  startedAt: string | null
  /** The last end of those that ended. */
  finishedAt: string | null
}

/** Whether there may be attempts before the one in the row. */
export const hasPast = ({ attempt, status }: { attempt: number; status: TaskStatus }): boolean =>
  attempt > 1 || (attempt === 1 && status === "pending")
