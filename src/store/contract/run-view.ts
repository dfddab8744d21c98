// Reads for the run view. The web UI draws thousands of tasks from it, so rows carry no input, output or error. Rows are ordered by
// node and path, for which both databases have an index.

import type { RunId } from "../../core/model/ids.ts"
import type { AttemptState, TaskStatus } from "../../core/model/status.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { RowKind } from "./store.ts"

export interface RunViewStore {
  /** Lists tasks without containers by node, then by path as text, after `after`. */
  listInstances(query: { runId: RunId; after?: InstanceKey; limit: number }): Promise<InstanceRow[]>
  /** Counts rows by node, kind and status, with their first start and last finish. */
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
  label: string | null
  status: TaskStatus
  attempt: number
  availableAt: string | null
  /** The event that the task waits for without a slot, or null. */
  waitingOn: WaitingOn["kind"] | null
  /** Past attempts, oldest first. */
  past: PastAttempt[]
}

export interface RowCount {
  node: number
  kind: RowKind
  status: TaskStatus
  count: number
  startedAt: string | null
  /** Latest finish, or null. */
  finishedAt: string | null
}

/** Returns whether the task may have past attempts. */
export const hasPast = ({ attempt, status }: { attempt: number; status: TaskStatus }): boolean =>
  attempt > 1 || (attempt === 1 && status === "pending")
