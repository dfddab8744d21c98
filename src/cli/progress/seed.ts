// Fills the model of a run from what the store knows, before it goes on (`--resume`) or when only its summary is wanted.

import { applyEvent, newView, type RunEvent, type RunView } from "./model.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { NodeState, ResetNode } from "../../core/rules/retry-plan.ts"
import { taskEnded } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"

const PAGE = 1000

type Rows = Pick<Store, "listTasks" | "listNodes" | "listInner">

/** `again`: what a plan is about to set back is as if it had not been. */
export const seedView = async (
  store: Rows,
  run: RunRow,
  workflow: CompiledWorkflow,
  again: readonly ResetNode[] = [],
): Promise<RunView> => {
  const view = newView(run.id, workflow)
  const fateOf = fates(workflow, again)
  takeRun(view, run)
  for await (const page of pages((after) => store.listTasks({ runId: run.id, limit: PAGE, after }))) {
    for (const row of page) {
      const task = view.byName.get(row.name)!
      const fate = fateOf({ ...row, node: task.node })
      if (fate === "gone" || (again.length > 0 && task.hook)) continue
      if (task.fans > 0) task.total = (task.total ?? 0) + 1
      if (fate === "kept") for (const event of eventsOf(row)) applyEvent(view, event)
    }
  }
  const take = (state: NodeState): void => {
    const fate = fateOf(state)
    if (fate !== "gone" && state.kind !== "task") takeContainer(view, state, fate === "kept")
  }
  for (const state of await store.listNodes(run.id)) take(state)
  if (!workflow.nodes.some(isGroup)) return view
  for await (const page of pages((after) => store.listInner({ runId: run.id, limit: PAGE, after }))) page.forEach(take)
  return view
}

async function* pages<Row extends { row: number }>(read: (after: number) => Promise<Row[]>): AsyncGenerator<Row[]> {
  for (let after = 0; ;) {
    const page = await read(after)
    yield page
    if (page.length < PAGE) return
    after = page.at(-1)!.row
  }
}

const takeContainer = (view: RunView, { node, path, kind, status, childrenCreated }: NodeState, kept: boolean): void => {
  const task = view.tasks[node]!
  if (kind === "fan" && path === "" && childrenCreated > 0) task.total = childrenCreated
  if (kind === "group" && task.fans > 0 && path !== "") {
    const isItem = view.workflow.nodes[node]!.fan !== undefined
    if (!isItem || task.fans > 1) task.total = (task.total ?? 0) + 1
  }
  if (!kept || !taskEnded(status)) return
  if (kind === "group") task.ended[status] += 1
  if (path === "") task.own = status
}

/** gone: below a container that begins anew. again: set back where it stands. */
type Fate = "kept" | "again" | "gone"

const fates = (workflow: CompiledWorkflow, plan: readonly ResetNode[]) => {
  const resets = Map.groupBy(plan, ({ node }) => node)
  const isUnder = (path: string, place: string): boolean => place === "" || path === place || path.startsWith(`${place}.`)
  return ({ node, path, kind, status }: Pick<NodeState, "node" | "path" | "kind" | "status">): Fate => {
    for (let around = workflow.nodes[node]!.group; around !== null; around = workflow.nodes[around]!.group) {
      if (resets.get(around)?.some(({ extent, path: place }) => extent === "all" && isUnder(path, place))) return "gone"
    }
    let fate: Fate = "kept"
    for (const { extent, path: place } of resets.get(node) ?? []) {
      if (place === path) fate = "again"
      else if (extent === "all" && isUnder(path, place)) return "gone"
      else if (extent === "failed" && kind === "task" && isUnder(path, place) && status !== "success") fate = "again"
      else if (typeof extent === "object" && extent.path === path) fate = "again"
    }
    return fate
  }
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

/** The view of a run that a plan is about to set going again. */
export const resetView = async (store: Rows, run: RunRow, view: RunView, nodes: readonly ResetNode[]): Promise<void> => {
  const open = { ...run, status: "running", error: null, finishedAt: null } as const
  Object.assign(view, await seedView(store, open, view.workflow, nodes))
}
