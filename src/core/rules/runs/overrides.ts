// The outcome of a task set by hand: whether the row can take it, how the counters change, and the status of a finished run
// afterwards. Both stores call this inside the transaction that has locked the run.

import { type RunStatus, type FinalStatus, isTaskFinished, type TaskStatus, type UpstreamOutcome } from "../../model/status.ts"
import type { Node } from "../../model/workflow.ts"
import { type CountedRow, countFinish, isAllowedFailure } from "../changes/effects.ts"
import { taskFailed } from "../messages.ts"

export interface Override {
  status: Extract<FinalStatus, "success" | "failed">
  reason: string
}

export interface OverriddenRow {
  status: TaskStatus
  attemptId: string | null
  isWaiting: boolean
  childrenCreated: number
}

/** How a row takes an override. `in_flight`: it is claimed, or has children, and cannot take one. */
export type OverrideTarget = "finished" | "waiting" | "pending" | "in_flight"

export const overrideTarget = ({ status, attemptId, isWaiting, childrenCreated }: OverriddenRow): OverrideTarget => {
  if (isTaskFinished(status)) return "finished"
  if (isWaiting) return "waiting"
  return status === "pending" && attemptId === null && childrenCreated === 0 ? "pending" : "in_flight"
}

/** Returns the error to store with the override, or null. */
export const overrideError = ({ status, reason }: Override): string | null => (status === "failed" ? reason : null)

type OverriddenEnd = Omit<CountedRow, "allowedFailure">

export interface CountChanges {
  /** Changes of the run's counters of listed tasks, by status. */
  tasks: Record<FinalStatus, number>
  /** Change of the run's number of failed top-level tasks. */
  runFailed: number
  /** Change of the container's number of unsuccessful children. */
  parentFailed: number
}

/** Returns how the counters change when a finished row of `node` gets another status. */
export const countOverride = (node: Node, row: OverriddenEnd, before: FinalStatus, after: FinalStatus): CountChanges => {
  const count = (status: FinalStatus) =>
    countFinish({ ...row, allowedFailure: isAllowedFailure(node, row.kind, status) }, status)
  const [old, now] = [count(before), count(after)]
  const tasks = { success: 0, failed: 0, skipped: 0, cancelled: 0 }
  tasks[before] -= old.listedTasks
  tasks[after] += now.listedTasks
  return { tasks, runFailed: now.failedTopLevel - old.failedTopLevel, parentFailed: now.failedChildren - old.failedChildren }
}

/**
 * Returns how the upstream counters of a downstream row change. `before`: what the row's earlier end counted as, null if it had
 * not finished.
 */
export const countUpstreamEnd = (
  before: UpstreamOutcome | null,
  after: UpstreamOutcome,
): Record<Exclude<UpstreamOutcome, "success">, number> => {
  const change = (end: UpstreamOutcome): number => Number(after === end) - Number(before === end)
  return { failed: change("failed"), unmet: change("unmet"), waived: change("waived") }
}

/**
 * Returns the new status and error of a run after an override, or null when it keeps its status: it has not finished, it was
 * cancelled, or its tasks still give the same status. `hasCancelled`: a top-level task is cancelled.
 */
export const recomputeRunStatus = (
  run: { status: RunStatus; failed: number; hasCancelled: boolean },
  taskName: string,
): { status: "success" | "failed"; error: string | null } | null => {
  if (run.status === "success" && run.failed > 0) return { status: "failed", error: taskFailed(taskName) }
  if (run.status === "failed" && run.failed === 0 && !run.hasCancelled) return { status: "success", error: null }
  return null
}
