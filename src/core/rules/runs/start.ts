// Start of runs: which pending runs may start under `max_active_runs` of their workflows, and the rows and timers that a run
// starts with. Called by the stores when a run is created or closed, inside the transaction that counts the running ones.

import type { RunId } from "../../model/ids.ts"
import type { NewRow } from "../../model/row.ts"
import type { CompiledWorkflow } from "../../model/workflow.ts"
import { initialRows, type PlannedRun } from "./new-rows.ts"
import { deadlineNotifications, type DelayedNotification } from "./notifications.ts"

export interface NewRunOrigin {
  waitForSchedule?: boolean
  previousRun?: RunId
  parent?: { withinSameWorkflow: boolean }
}

/**
 * Returns whether a new run is inserted pending, for `runsToStart` to choose. Other runs start at once, among them a sub-workflow within a
 * run of the same workflow: pending, it would wait for the end of the run that waits for it.
 */
export const mustWaitToStart = (
  workflow: CompiledWorkflow,
  { waitForSchedule = false, previousRun, parent }: NewRunOrigin,
): boolean =>
  waitForSchedule || previousRun !== undefined || (workflow.maxActiveRuns !== undefined && parent?.withinSameWorkflow !== true)

export interface PendingRun {
  workflowId: number
  /** `max_active_runs` of the run's version; undefined: no limit. */
  maxActiveRuns: number | undefined
}

/**
 * Returns the runs to start. `oldestFirst`: pending runs that wait for no schedule. `running`: number of running runs by
 * workflow. A run that may not start yet holds back all later runs of its workflow.
 */
export const runsToStart = <Run extends PendingRun>(
  oldestFirst: readonly Run[],
  running: ReadonlyMap<number, number>,
): Run[] => {
  const active = new Map(running)
  const full = new Set<number>()
  return oldestFirst.filter(({ workflowId, maxActiveRuns = Number.POSITIVE_INFINITY }) => {
    const count = active.get(workflowId) ?? 0
    if (full.has(workflowId) || count >= maxActiveRuns) {
      full.add(workflowId)
      return false
    }
    active.set(workflowId, count + 1)
    return true
  })
}

export interface RunStart {
  rows: NewRow[]
  /** Number of rows that are listed as tasks. */
  tasks: number
  /** Milliseconds until the run times out, or null. */
  timeoutMs: number | null
  /** Notifications that are due when the run, or a task of it, passes its deadline. */
  notifications: DelayedNotification[]
}

export const planStart = (workflow: CompiledWorkflow, run: PlannedRun): RunStart => {
  const rows = initialRows(workflow, run)
  return {
    rows,
    tasks: rows.reduce((count, { kind }) => (kind === "task" ? count + 1 : count), 0),
    timeoutMs: workflow.timeoutMs ?? null,
    notifications: deadlineNotifications(workflow, run),
  }
}
