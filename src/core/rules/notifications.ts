// Which notices a run owes: of its end, and of a deadline that it is past. The stores record them in the transaction that makes
// them due; engine/services/notifier.ts sends them.

import type { RunStatus } from "../model/status.ts"
import type { CompiledWorkflow, NotifySpec } from "../model/workflow.ts"

export type NotificationKind = NotifySpec["on"][number]

/** One entry of `notify` by its place; -1: for the log alone. */
export interface NewNotification {
  kind: NotificationKind
  target: number
}

const KINDS = { success: "success", failed: "failure", cancelled: "cancel" } as const

const targetsOf = (workflow: CompiledWorkflow, kind: NotificationKind): NewNotification[] =>
  workflow.notify.flatMap(({ on }, target) => (on.includes(kind) ? [{ kind, target }] : []))

/** Due when the run has ended so. Private runs (`ork run`) tell whoever watches them. */
export const endNotifications = (workflow: CompiledWorkflow, run: { private: boolean }, status: RunStatus): NewNotification[] =>
  run.private || status === "pending" || status === "running" ? [] : targetsOf(workflow, KINDS[status])

/** Due `deadlineMs` after the run's start, unless it has ended by then. */
export const deadlineNotifications = (workflow: CompiledWorkflow, run: { private: boolean }): NewNotification[] => {
  if (run.private || workflow.deadlineMs === undefined) return []
  const targets = targetsOf(workflow, "deadline")
  return targets.length === 0 ? [{ kind: "deadline", target: -1 }] : targets
}
