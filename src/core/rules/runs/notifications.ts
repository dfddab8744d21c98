// Notifications of a run and of its tasks: of their ends, and of missed deadlines. The stores record them in the transaction that makes
// them due; engine/services/notifier.ts sends them. Private runs (`ork run`) have none.

import type { RowKind } from "../../model/row.ts"
import { isTaskFinished, type RunStatus, type FinalStatus } from "../../model/status.ts"
import { groupsAround, isInstance } from "../../model/task-path.ts"
import type { CompiledWorkflow, NotifySpec } from "../../model/workflow.ts"
import type { RowState } from "./retry-plan.ts"

export type NotificationKind = NotifySpec["on"][number]

export interface NewNotification {
  kind: NotificationKind
  /** Index in `notify` of the workflow or of the task; -1: the log only. */
  target: number
  /** The task that it is about, as the index of its node; null: the run. */
  node: number | null
  /** Path of the task's row; empty for the run, and for a deadline. */
  path: string
}

/** A notification that is due some time after the start of the run. */
export interface DelayedNotification extends NewNotification {
  afterMs: number
}

const KINDS = { success: "success", failed: "failure", cancelled: "cancel" } as const

type Subject = Pick<NewNotification, "node" | "path">

const RUN: Subject = { node: null, path: "" }

const targetsOf = (notify: readonly NotifySpec[], kind: NotificationKind, subject: Subject): NewNotification[] =>
  notify.flatMap(({ on }, target) => (on.includes(kind) ? [{ kind, target, ...subject }] : []))

/** Returns the notifications that are due when the run closes with this status. */
export const endNotifications = (workflow: CompiledWorkflow, run: { private: boolean }, status: RunStatus): NewNotification[] =>
  run.private || status === "pending" || status === "running" ? [] : targetsOf(workflow.notify, KINDS[status], RUN)

/**
 * Returns the notifications that are due when a row of a task ends with this status. A skipped task has none. A fan-out has them for its
 * container, when all instances have ended.
 */
export const taskNotifications = (
  workflow: CompiledWorkflow,
  run: { private: boolean },
  { node: index, path, kind }: { node: number; path: string; kind: RowKind },
  status: FinalStatus,
): NewNotification[] => {
  const node = workflow.nodes[index]!
  return node.notify === undefined || run.private || status === "skipped" || isInstance(node, kind)
    ? []
    : targetsOf(node.notify, KINDS[status], { node: index, path })
}

/** Returns the notifications that are due when the run, or a task of it, has not ended by its deadline. */
export const deadlineNotifications = (workflow: CompiledWorkflow, run: { private: boolean }): DelayedNotification[] => {
  if (run.private) return []
  const ofTasks = workflow.nodes.flatMap(({ deadlineMs, notify = [] }, node) =>
    deadlinesOf(deadlineMs, notify, { node, path: "" }),
  )
  return [...deadlinesOf(workflow.deadlineMs, workflow.notify, RUN), ...ofTasks]
}

/** Returns the notifications of a deadline. Without a recipient, the notification is for the log. */
const deadlinesOf = (
  deadlineMs: number | undefined,
  notify: readonly NotifySpec[],
  subject: Subject,
): DelayedNotification[] => {
  if (deadlineMs === undefined) return []
  const targets = targetsOf(notify, "deadline", subject)
  const log: NewNotification = { kind: "deadline", target: -1, ...subject }
  return (targets.length === 0 ? [log] : targets).map((target) => ({ ...target, afterMs: deadlineMs }))
}

/**
 * Returns whether a task of a running run has not ended. `rows`: those of the task and of the groups around it. A group without children
 * is still to create rows of the task.
 */
export const hasOpenRow = (
  workflow: CompiledWorkflow,
  node: number,
  rows: readonly Pick<RowState, "node" | "status" | "childrenCreated">[],
): boolean => {
  const groups = groupsAround(workflow, node)
  return rows.some(
    (row) => !isTaskFinished(row.status) && (row.node === node || (groups.includes(row.node) && row.childrenCreated === 0)),
  )
}
