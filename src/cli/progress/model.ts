// What a person watching a run sees, kept up to date by the events of the store: one entry per task of the workflow, with
// its live instances and counts of the ended ones. Memory grows with what is live or failed, not with the size of a fan-out.
// Fed by watch.ts; read by rows.ts, estimate.ts, critical-path.ts and the summary.

import { groupMembers } from "../../core/model/task-path.ts"
import { type RunStatus, runEnded, TASK_STATUSES, type TaskEnd, taskEnded, type TaskStatus } from "../../core/model/status.ts"
import type { WaitingView } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Progress, StoreEvent } from "../../store/contract/store.ts"

/** What a view of runs is told; a store may tell of other things too. */
export type RunEvent = Extract<StoreEvent, { type: "run" | "task" }>

export const isEventOf = (runId: string, event: StoreEvent): event is RunEvent => event.runId === runId

/** An instance that has begun and not ended, or waits for its retry. Times are epoch milliseconds. */
export interface LiveInstance {
  path: string
  status: "pending" | "dispatched" | "running"
  attempt: number
  since: number
  retryAt: number | null
  /** What it waits for without a slot, and how far it said that it is. */
  waiting: WaitingView | null
  progress: Progress | null
}

export interface FailedInstance {
  path: string
  attempt: number
  error: string
}

export interface TaskView {
  node: number
  name: string
  /** Groups around it. */
  depth: number
  /** Levels of fan-out around and in it: how many indexes the path of an instance has. */
  fans: number
  group: boolean
  hook: boolean
  /** Instances that there are in all; null: not known yet. */
  total: number | null
  /** Instances that ended; of a group its items. */
  ended: Record<TaskEnd, number>
  live: Map<string, LiveInstance>
  failures: FailedInstance[]
  /** Told of the task as a whole (containers, tasks without instances). */
  own: TaskStatus | null
  attempt: number
  error: string | null
  startedAt: number | null
  finishedAt: number | null
}

export interface RunView {
  runId: string
  workflow: CompiledWorkflow
  status: RunStatus
  error: string | null
  startedAt: number | null
  finishedAt: number | null
  tasks: TaskView[]
  byName: Map<string, TaskView>
}

/** More failures of one task than this are counted, not kept. */
const MAX_FAILURES = 100

const ancestors = (workflow: CompiledWorkflow, node: Node): number[] => {
  const found: number[] = []
  for (let group = node.group; group !== null; group = workflow.nodes[group]!.group) found.push(group)
  return found
}

export const newView = (runId: string, workflow: CompiledWorkflow): RunView => {
  const groups = new Set(workflow.nodes.map((node) => node.group))
  const tasks = workflow.nodes.map((node, index): TaskView => {
    const around = ancestors(workflow, node)
    const fans = [index, ...around].filter((i) => workflow.nodes[i]!.fan !== undefined).length
    return {
      node: index,
      name: node.name,
      depth: around.length,
      fans,
      group: groups.has(index),
      hook: node.hook !== null,
      total: fans === 0 ? 1 : null,
      ended: { success: 0, failed: 0, skipped: 0, cancelled: 0 },
      live: new Map(),
      failures: [],
      own: null,
      attempt: 0,
      error: null,
      startedAt: null,
      finishedAt: null,
    }
  })
  const byName = new Map(tasks.map((task) => [task.name, task]))
  return { runId, workflow, status: "pending", error: null, startedAt: null, finishedAt: null, tasks, byName }
}

export const applyEvent = (view: RunView, event: RunEvent): void => {
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

const applyRun = (view: RunView, event: RunEvent, at: number): void => {
  if (!isRunStatus(event.status)) return
  view.status = event.status
  if (event.error !== undefined) view.error = event.error
  if (event.status === "running") view.startedAt ??= at
  view.finishedAt = runEnded(event.status) ? at : null
}

const applyTask = (view: RunView, task: TaskView, event: RunEvent, at: number): void => {
  if (!isTaskStatus(event.status)) return
  const path = event.path ?? ""
  const indexes = path === "" ? 0 : path.split(".").length
  const { status } = event
  if (event.total !== undefined) task.total = event.total + (indexes === 0 ? 0 : (task.total ?? 0))
  if (status === "running") started(view, task, at)
  if (taskEnded(status)) finished(view, task, at)
  if (indexes === 0) {
    task.own = status
    task.error = event.error ?? null
  }
  if (indexes < task.fans) return
  if (task.group) {
    applyItem(view, task, event)
    return
  }

  task.attempt = Math.max(task.attempt, event.attempt ?? 0)
  if (taskEnded(status)) {
    task.live.delete(path)
    task.ended[status] += 1
    if (status === "failed" && task.failures.length < MAX_FAILURES) {
      task.failures.push({ path, attempt: event.attempt ?? 0, error: event.error ?? "" })
    }
    return
  }
  if (status === "pending" && event.availableAt === undefined) {
    task.live.delete(path)
    return
  }
  const known = task.live.get(path)
  const same = known?.status === status && known.attempt === (event.attempt ?? 0)
  task.live.set(path, {
    path,
    status,
    attempt: event.attempt ?? 0,
    since: same ? known.since : at,
    retryAt: event.availableAt === undefined ? null : Date.parse(event.availableAt),
    waiting: event.waiting ?? (same ? known.waiting : null),
    progress: event.progress ?? (same && event.waiting === undefined ? known.progress : null),
  })
}

/** One item of a group, or a group that has none: when it is opened, its tasks are there. */
const applyItem = (view: RunView, group: TaskView, { status }: RunEvent): void => {
  if (!isTaskStatus(status)) return
  if (taskEnded(status)) group.ended[status] += 1
  if (status !== "running") return
  for (const index of groupMembers(view.workflow, group.node)) {
    const member = view.tasks[index]!
    if (member.fans > 0 && view.workflow.nodes[index]!.fan === undefined) member.total = (member.total ?? 0) + 1
  }
}

/** The tasks inside a group at any depth: those that ended, of those known. */
export const insideOf = (view: RunView, group: TaskView): { ended: number; total: number } => {
  let ended = 0
  let total = 0
  for (const index of groupMembers(view.workflow, group.node)) {
    const member = view.tasks[index]!
    const inside = member.group ? insideOf(view, member) : { ended: endedCount(member), total: member.total ?? 0 }
    ended += inside.ended
    total += inside.total
  }
  return { ended, total }
}

/** The task and the groups that it lies in. */
const upwards = (view: RunView, task: TaskView): TaskView[] => [
  task,
  ...ancestors(view.workflow, view.workflow.nodes[task.node]!).map((index) => view.tasks[index]!),
]

const started = (view: RunView, task: TaskView, at: number): void => {
  for (const each of upwards(view, task)) {
    each.startedAt = Math.min(each.startedAt ?? at, at)
    each.finishedAt = null
  }
}

const finished = (view: RunView, task: TaskView, at: number): void => {
  for (const each of upwards(view, task)) each.finishedAt = Math.max(each.finishedAt ?? at, at)
}

export const endedCount = (task: TaskView): number =>
  task.ended.success + task.ended.failed + task.ended.skipped + task.ended.cancelled

/** One word for the whole task; `waiting` is a pending task that has failed and will be tried again. */
export type TaskState = TaskStatus | "waiting"

export const stateOf = (task: TaskView): TaskState => {
  if (task.own !== null && taskEnded(task.own)) return task.own
  const live = [...task.live.values()]
  if (live.some((instance) => instance.status === "running")) return "running"
  if (live.some((instance) => instance.status === "dispatched")) return "dispatched"
  if (live.length > 0 && endedCount(task) === 0) return "waiting"
  if (task.fans > 0 && task.total !== null && endedCount(task) >= task.total && task.own === null) {
    return task.ended.failed > 0 ? "failed" : task.ended.cancelled > 0 ? "cancelled" : "success"
  }
  if (task.startedAt !== null && (task.fans > 0 || task.group)) return "running"
  return "pending"
}
