// Notifications of a run: of its end, and of a missed deadline. The stores record them in the transaction that makes them due;
// engine/services/notifier.ts sends them.

import type { RunStatus } from "../../model/status.ts"
import type { CompiledWorkflow, NotifySpec } from "../../model/workflow.ts"

export type NotificationKind = NotifySpec["on"][number]

export interface NewNotification {
  kind: NotificationKind
  /** Index in `notify` of the workflow; -1: the log only. */
  target: number
}

const KINDS = { success: "success", failed: "failure", cancelled: "cancel" } as const

const targetsOf = (workflow: CompiledWorkflow, kind: NotificationKind): NewNotification[] =>
  workflow.notify.flatMap(({ on }, target) => (on.includes(kind) ? [{ kind, target }] : []))

/** Returns the notifications that are due when the run closes with this status. Private runs (`ork run`) have none. */
export const endNotifications = (workflow: CompiledWorkflow, run: { private: boolean }, status: RunStatus): NewNotification[] =>
  run.private || status === "pending" || status === "running" ? [] : targetsOf(workflow, KINDS[status])

/** Returns the notifications that are due `deadlineMs` after the start of the run, unless it has closed by then. */
export const deadlineNotifications = (workflow: CompiledWorkflow, run: { private: boolean }): NewNotification[] => {
  if (run.private || workflow.deadlineMs === undefined) return []
  const targets = targetsOf(workflow, "deadline")
  return targets.length === 0 ? [{ kind: "deadline", target: -1 }] : targets
}
