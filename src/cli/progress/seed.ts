// Fills the model of a run from what the store knows, before it goes on (`--resume`) or when only its summary is wanted.

import { applyEvent, newView, type RunEvent, type RunView, type TaskView } from "./model.ts"
import type { ResetNode } from "../../core/retry-plan.ts"
import { taskEnded } from "../../core/status.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"
import type { RunRow, Store, TaskRow } from "../../store/store.ts"

const PAGE = 1000

export const seedView = async (store: Store, run: RunRow, workflow: CompiledWorkflow): Promise<RunView> => {
  const view = newView(run.id, workflow)
  takeRun(view, run)
  let after: number | undefined
  for (;;) {
    const page = await store.listTasks({ runId: run.id, limit: PAGE, ...(after === undefined ? {} : { after }) })
    for (const task of page) for (const event of eventsOf(task)) applyEvent(view, event)
    after = page.at(-1)?.row
    if (after === undefined || page.length < PAGE) break
  }
  for (const { node, kind, status, expanded } of await store.listNodes(run.id)) {
    const task = view.tasks[node]!
    if (kind === "task" || task.depth > 0) continue
    if (kind === "fan" && expanded > 0) task.total = expanded
    if (taskEnded(status)) task.own = status
  }
  return view
}

/** The run's own row is the last word on its status and times. */
export const takeRun = (view: RunView, run: Pick<RunRow, "status" | "error" | "startedAt" | "finishedAt">): void => {
  view.status = run.status
  view.error = run.error
  view.startedAt = run.startedAt === null ? null : Date.parse(run.startedAt)
  view.finishedAt = run.finishedAt === null ? null : Date.parse(run.finishedAt)
}

/** What the store would have told about this task. An attempt that was under way counts as not begun: it is begun again. */
const eventsOf = (task: TaskRow): RunEvent[] => {
  const about = { type: "task", runId: task.runId, task: task.name, path: task.path, attempt: task.attempt } as const
  const events: RunEvent[] = []
  const ended = taskEnded(task.status)
  if (ended && task.startedAt !== null) events.push({ ...about, status: "running", at: task.startedAt })
  const at = task.finishedAt ?? task.startedAt ?? task.dispatchedAt
  if (ended && at !== null) {
    events.push({ ...about, status: task.status, at, ...(task.error === null ? {} : { error: task.error }) })
  }
  return events
}

/** What a retry sets back is as if it had not been. */
export const resetView = (view: RunView, nodes: readonly ResetNode[]): void => {
  view.status = "running"
  view.error = null
  view.finishedAt = null
  const fresh = newView(view.runId, view.workflow)
  const again = (task: TaskView): void => void Object.assign(task, fresh.tasks[task.node])
  for (const task of view.tasks) if (task.hook) again(task)
  for (const { node, scope } of nodes) {
    const task = view.tasks[node]!
    if (scope === "all") {
      again(task)
      for (const member of view.tasks) if (isInside(view, member, node)) again(member)
      continue
    }
    const success = scope === "failed" ? task.ended.success : Math.max(0, task.ended.success - 1)
    Object.assign(task, { own: null, error: null, failures: [], finishedAt: null })
    task.ended = { success, failed: 0, skipped: 0, cancelled: 0 }
  }
}

const isInside = (view: RunView, task: TaskView, group: number): boolean => {
  for (let at = view.workflow.nodes[task.node]!.group; at !== null; at = view.workflow.nodes[at]!.group) {
    if (at === group) return true
  }
  return false
}
