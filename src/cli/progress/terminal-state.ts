// The state of a run as the terminal shows it, built from events: one entry per task of the workflow, with its live instances and
// counts of the ended ones. Memory grows with live and failed instances, not with the size of a fan-out. run/local-run.ts and
// run/follow-run.ts apply events; frame.ts, estimate.ts, critical-path.ts and summary.ts read the state.

import { groupMembers } from "../../core/model/task-path.ts"
import {
  type RunStatus,
  isRunClosed,
  TASK_STATUSES,
  type FinalStatus,
  isTaskFinished,
  type TaskStatus,
} from "../../core/model/status.ts"
import type { WaitingView } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Progress, StoreEvent } from "../../store/contract/store.ts"

/** Events that a run view applies. A store also emits events of other kinds. */
export type RunEvent = Extract<StoreEvent, { type: "run" | "task" }>

export const isRunEvent = (runId: string, event: StoreEvent): event is RunEvent => event.runId === runId

/** An instance that has started and not ended, or waits for its retry. Times are in epoch milliseconds. */
export interface LiveInstance {
  path: string
  status: "pending" | "dispatched" | "running"
  attempt: number
  since: number
  retryAt: number | null
  /** Set while the instance waits without a slot. */
  waiting: WaitingView | null
  /** Latest progress that the task reported. */
  progress: Progress | null
}

export interface FailedInstance {
  path: string
  attempt: number
  error: string
}

export interface TerminalTask {
  node: number
  name: string
  /** Number of enclosing groups. */
  depth: number
  /** Number of fan-outs, its own and enclosing ones, which is the number of indexes in an instance's path. */
  fanLevels: number
  group: boolean
  hook: boolean
  /** Number of instances; null if not known yet. */
  total: number | null
  /** Number of ended instances, or of ended items of a group, by status. */
  ended: Record<FinalStatus, number>
  live: Map<string, LiveInstance>
  failures: FailedInstance[]
  /** Status of the task as a whole (containers, tasks without instances); null without an event for it. */
  ownStatus: TaskStatus | null
  attempt: number
  error: string | null
  startedAt: number | null
  finishedAt: number | null
}

export interface TerminalRun {
  runId: string
  workflow: CompiledWorkflow
  status: RunStatus
  error: string | null
  startedAt: number | null
  finishedAt: number | null
  tasks: TerminalTask[]
  byName: Map<string, TerminalTask>
}

/** Failures stored per task; more are only counted. */
const MAX_FAILURES_STORED = 100

const enclosingGroups = (workflow: CompiledWorkflow, node: Node): number[] => {
  const found: number[] = []
  for (let group = node.group; group !== null; group = workflow.nodes[group]!.group) found.push(group)
  return found
}

export const newTerminalRun = (runId: string, workflow: CompiledWorkflow): TerminalRun => {
  const groups = new Set(workflow.nodes.map((node) => node.group))
  const tasks = workflow.nodes.map((node, index): TerminalTask => {
    const groupsAround = enclosingGroups(workflow, node)
    const fans = [index, ...groupsAround].filter((i) => workflow.nodes[i]!.fan !== undefined).length
    return {
      node: index,
      name: node.name,
      depth: groupsAround.length,
      fanLevels: fans,
      group: groups.has(index),
      hook: node.hook !== null,
      total: fans === 0 ? 1 : null,
      ended: { success: 0, failed: 0, skipped: 0, cancelled: 0 },
      live: new Map(),
      failures: [],
      ownStatus: null,
      attempt: 0,
      error: null,
      startedAt: null,
      finishedAt: null,
    }
  })
  const byName = new Map(tasks.map((task) => [task.name, task]))
  return { runId, workflow, status: "pending", error: null, startedAt: null, finishedAt: null, tasks, byName }
}

export const applyEvent = (view: TerminalRun, event: RunEvent): void => {
  if (event.runId !== view.runId) return
  const at = Date.parse(event.at)
  if (event.type === "run") applyRun(view, event, at)
  else {
    const task = view.byName.get(event.task ?? "")
    if (task !== undefined) applyTask(view, task, event, at)
  }
}

const isRunStatus = (status: string): status is RunStatus => status !== "skipped" && status !== "dispatched"
const isTaskStatus = (status: string): status is TaskStatus => TASK_STATUSES.some((known) => known === status)

const applyRun = (view: TerminalRun, event: RunEvent, at: number): void => {
  if (!isRunStatus(event.status)) return
  view.status = event.status
  if (event.error !== undefined) view.error = event.error
  if (event.status === "running") view.startedAt ??= at
  view.finishedAt = isRunClosed(event.status) ? at : null
}

const applyTask = (view: TerminalRun, task: TerminalTask, event: RunEvent, at: number): void => {
  const { status } = event
  if (!isTaskStatus(status)) return
  const path = event.path ?? ""
  const indexes = path === "" ? 0 : path.split(".").length
  if (event.total !== undefined) task.total = event.total + (indexes === 0 ? 0 : (task.total ?? 0))
  if (status === "running") markStarted(view, task, at)
  if (isTaskFinished(status)) markFinished(view, task, at)
  if (indexes === 0) {
    task.ownStatus = status
    task.error = event.error ?? null
  }
  if (indexes < task.fanLevels) return
  if (task.group) applyGroupItem(view, task, status)
  else applyInstance(task, event, { status, path, at })
}

const applyInstance = (
  task: TerminalTask,
  event: RunEvent,
  { status, path, at }: { status: TaskStatus; path: string; at: number },
): void => {
  const attempt = event.attempt ?? 0
  task.attempt = Math.max(task.attempt, attempt)
  if (isTaskFinished(status)) {
    task.live.delete(path)
    task.ended[status] += 1
    if (status === "failed" && task.failures.length < MAX_FAILURES_STORED) {
      task.failures.push({ path, attempt, error: event.error ?? "" })
    }
    return
  }
  if (status === "pending" && event.availableAt === undefined) {
    task.live.delete(path)
    return
  }
  const known = task.live.get(path)
  const same = known?.status === status && known.attempt === attempt
  task.live.set(path, {
    path,
    status,
    attempt,
    since: same ? known.since : at,
    retryAt: event.availableAt === undefined ? null : Date.parse(event.availableAt),
    waiting: event.waiting ?? (same ? known.waiting : null),
    progress: event.progress ?? (same && event.waiting === undefined ? known.progress : null),
  })
}

/** Applies an event of one item of a group, or of a group without fan-out. A running item adds its tasks to the totals. */
const applyGroupItem = (view: TerminalRun, group: TerminalTask, status: TaskStatus): void => {
  if (isTaskFinished(status)) group.ended[status] += 1
  if (status !== "running") return
  for (const index of groupMembers(view.workflow, group.node)) {
    const member = view.tasks[index]!
    if (member.fanLevels > 0 && view.workflow.nodes[index]!.fan === undefined) member.total = (member.total ?? 0) + 1
  }
}

/** Counts the known and the ended tasks inside a group, at any depth. */
export const countInside = (view: TerminalRun, group: TerminalTask): { ended: number; total: number } => {
  let ended = 0
  let total = 0
  for (const index of groupMembers(view.workflow, group.node)) {
    const member = view.tasks[index]!
    const inside = member.group ? countInside(view, member) : { ended: endedCount(member), total: member.total ?? 0 }
    ended += inside.ended
    total += inside.total
  }
  return { ended, total }
}

const withEnclosingGroups = (view: TerminalRun, task: TerminalTask): TerminalTask[] => [
  task,
  ...enclosingGroups(view.workflow, view.workflow.nodes[task.node]!).map((index) => view.tasks[index]!),
]

const markStarted = (view: TerminalRun, task: TerminalTask, at: number): void => {
  for (const each of withEnclosingGroups(view, task)) {
    each.startedAt = Math.min(each.startedAt ?? at, at)
    each.finishedAt = null
  }
}

const markFinished = (view: TerminalRun, task: TerminalTask, at: number): void => {
  for (const each of withEnclosingGroups(view, task)) each.finishedAt = Math.max(each.finishedAt ?? at, at)
}

export const endedCount = (task: TerminalTask): number =>
  task.ended.success + task.ended.failed + task.ended.skipped + task.ended.cancelled

/** Status of a whole task; `waiting` is a pending task that failed and will be retried. */
export type TaskState = TaskStatus | "waiting"

export const stateOf = (task: TerminalTask): TaskState => {
  if (task.ownStatus !== null && isTaskFinished(task.ownStatus)) return task.ownStatus
  const live = [...task.live.values()]
  if (live.some((instance) => instance.status === "running")) return "running"
  if (live.some((instance) => instance.status === "dispatched")) return "dispatched"
  if (live.length > 0 && endedCount(task) === 0) return "waiting"
  if (task.fanLevels > 0 && task.total !== null && endedCount(task) >= task.total && task.ownStatus === null) {
    return task.ended.failed > 0 ? "failed" : task.ended.cancelled > 0 ? "cancelled" : "success"
  }
  if (task.startedAt !== null && (task.fanLevels > 0 || task.group)) return "running"
  return "pending"
}
