// Builds the view of an existing run from the store, to continue the run (`--resume`) or to print its summary.

import { applyEvent, newTerminalRun, type RunEvent, type TerminalRun } from "./terminal-state.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { RowState, RowReset } from "../../core/rules/runs/retry-plan.ts"
import { isTaskFinished } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

const PAGE_SIZE = 1000

type TaskStore = Pick<Store, "listTasks" | "listRowStates" | "listInnerRowStates">

/** `resets`: nodes that a retry is about to reset; their rows are left out. */
export const loadView = async (
  store: TaskStore,
  run: RunRow,
  workflow: CompiledWorkflow,
  resets: readonly RowReset[] = [],
): Promise<TerminalRun> => {
  const view = newTerminalRun(run.id, workflow)
  const effectOn = retryEffects(workflow, resets)
  setRunFields(view, run)
  for await (const page of rowPages(PAGE_SIZE, (each) => store.listTasks({ runId: run.id, ...each }))) {
    for (const row of page) {
      const task = view.byName.get(row.name)!
      const effect = effectOn({ ...row, node: task.node })
      if (effect === "removed" || (resets.length > 0 && task.hook)) continue
      if (task.fanLevels > 0) task.total = (task.total ?? 0) + 1
      if (effect === "kept") for (const event of eventsOf(row)) applyEvent(view, event)
    }
  }
  const addState = (state: RowState): void => {
    const effect = effectOn(state)
    if (effect !== "removed" && state.kind !== "task") addContainer(view, state, effect === "kept")
  }
  for (const state of await store.listRowStates(run.id)) addState(state)
  if (!workflow.nodes.some(isGroup)) return view
  for await (const page of rowPages(PAGE_SIZE, (each) => store.listInnerRowStates({ runId: run.id, ...each })))
    page.forEach(addState)
  return view
}

const addContainer = (view: TerminalRun, { node, path, kind, status, childrenCreated }: RowState, kept: boolean): void => {
  const task = view.tasks[node]!
  if (kind === "fan" && path === "" && childrenCreated > 0) task.total = childrenCreated
  if (kind === "group" && task.fanLevels > 0 && path !== "") {
    const isItem = view.workflow.nodes[node]!.fan !== undefined
    if (!isItem || task.fanLevels > 1) task.total = (task.total ?? 0) + 1
  }
  if (!kept || !isTaskFinished(status)) return
  if (kind === "group") task.ended[status] += 1
  if (path === "") task.ownStatus = status
}

/** Effect of a retry on a row. `removed`: its container is expanded again. `reset`: the row becomes pending. */
type RetryEffect = "kept" | "reset" | "removed"

const retryEffects = (workflow: CompiledWorkflow, plan: readonly RowReset[]) => {
  const resetsByNode = Map.groupBy(plan, ({ node }) => node)
  const isWithin = (path: string, scopePath: string): boolean =>
    scopePath === "" || path === scopePath || path.startsWith(`${scopePath}.`)
  return ({ node, path, kind, status }: Pick<RowState, "node" | "path" | "kind" | "status">): RetryEffect => {
    for (let group = workflow.nodes[node]!.group; group !== null; group = workflow.nodes[group]!.group) {
      if (resetsByNode.get(group)?.some((reset) => reset.extent === "all" && isWithin(path, reset.path))) return "removed"
    }
    let effect: RetryEffect = "kept"
    for (const { extent, path: resetPath } of resetsByNode.get(node) ?? []) {
      if (resetPath === path) effect = "reset"
      else if (extent === "all" && isWithin(path, resetPath)) return "removed"
      else if (extent === "failed" && kind === "task" && isWithin(path, resetPath) && status !== "success") effect = "reset"
      else if (typeof extent === "object" && extent.path === path) effect = "reset"
    }
    return effect
  }
}

/** Sets the status, error and times of the view from the run itself; events may differ. */
export const setRunFields = (view: TerminalRun, run: Pick<RunRow, "status" | "error" | "startedAt" | "finishedAt">): void => {
  view.status = run.status
  view.error = run.error
  view.startedAt = run.startedAt === null ? null : Date.parse(run.startedAt)
  view.finishedAt = run.finishedAt === null ? null : Date.parse(run.finishedAt)
}

/** Returns the events that lead to the state of this row. A running attempt counts as not started: it will be started again. */
const eventsOf = (task: TaskRow): RunEvent[] => {
  const about = { type: "task", runId: task.runId, task: task.name, path: task.path, attempt: task.attempt } as const
  const events: RunEvent[] = []
  const ended = isTaskFinished(task.status)
  if (ended && task.startedAt !== null) events.push({ ...about, status: "running", at: task.startedAt })
  const at = task.finishedAt ?? task.startedAt ?? task.dispatchedAt
  if (ended && at !== null) {
    events.push({ ...about, status: task.status, at, ...(task.error === null ? {} : { error: task.error }) })
  }
  return events
}

/** Resets the view of a run to its state when the retry starts. */
export const resetForRetry = async (
  store: TaskStore,
  run: RunRow,
  view: TerminalRun,
  nodes: readonly RowReset[],
): Promise<void> => {
  const open = { ...run, status: "running", error: null, finishedAt: null } as const
  Object.assign(view, await loadView(store, open, view.workflow, nodes))
}
