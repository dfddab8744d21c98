// Which rows a run begins with, which hooks its end adds, and the limits that rows are under. Called by the stores.

import { gateLane, type RunScope, workLane } from "./lanes.ts"
import type { RunStatus } from "./status.ts"
import { type CompiledWorkflow, DEFAULT_PRIORITY, type HookEvent, type Node, rootNodes } from "./workflow.ts"

export interface Limit {
  key: string
  cap: number
}

export interface NewRow {
  node: number
  kind: "task" | "fan" | "group"
  upstreamLeft: number
  lane: string
  priority: number
  limits: Limit[]
}

export interface PlannedRun extends RunScope {
  priority: number
}

/** The run's own priority: the trigger's, else the workflow's, else 5. */
export const runPriority = (workflow: CompiledWorkflow, trigger: number | null): number =>
  trigger ?? workflow.priority ?? DEFAULT_PRIORITY

/** A task's own priority wins over the run's. */
export const taskPriority = (node: Node, runPriority: number): number => node.priority ?? runPriority

const groupsOf = (workflow: CompiledWorkflow): Set<number | null> => new Set(workflow.nodes.map((node) => node.group))

/**
 * Limits on what runs at once that are known beforehand: tasks of the run, instances of this task in the run. With a
 * `concurrency_key` the gate adds the limit of that key. Hooks are not under the run's.
 */
export const limitsOf = (workflow: CompiledWorkflow, index: number, runId: string): Limit[] => {
  const node = workflow.nodes[index]!
  const limits: Limit[] = []
  if (node.hook === null && workflow.concurrency !== undefined) limits.push({ key: `r:${runId}`, cap: workflow.concurrency })
  if (node.concurrency !== undefined && node.concurrencyKey === undefined)
    limits.push({ key: `t:${runId}:${index}`, cap: node.concurrency })
  return limits
}

const newRow = (workflow: CompiledWorkflow, index: number, run: PlannedRun, groups: Set<number | null>): NewRow => {
  const node = workflow.nodes[index]!
  const kind = node.fan !== undefined ? "fan" : groups.has(index) ? "group" : "task"
  return {
    node: index,
    kind,
    upstreamLeft: node.upstream.length,
    lane: node.gated ? gateLane(run) : workLane(run, node),
    priority: taskPriority(node, run.priority),
    limits: kind === "task" ? limitsOf(workflow, index, run.id) : [],
  }
}

export const initialRows = (workflow: CompiledWorkflow, run: PlannedRun): NewRow[] => {
  const groups = groupsOf(workflow)
  return rootNodes(workflow).map((index) => newRow(workflow, index, run, groups))
}

const HOOKS_OF = {
  success: ["on_success", "on_exit"],
  failed: ["on_failure", "on_exit"],
  cancelled: ["on_cancel", "on_exit"],
} as const satisfies Record<Extract<RunStatus, "success" | "failed" | "cancelled">, readonly HookEvent[]>

/** Hook rows to add in the transaction that ends the run. */
export const hookRows = (workflow: CompiledWorkflow, run: PlannedRun, status: "success" | "failed" | "cancelled"): NewRow[] => {
  const events: readonly HookEvent[] = HOOKS_OF[status]
  const groups = groupsOf(workflow)
  return workflow.nodes.flatMap((node, i) =>
    node.hook !== null && events.includes(node.hook) ? [newRow(workflow, i, run, groups)] : [],
  )
}

/** The limit that instances with the same `concurrency_key` share, across all runs of the workflow. */
export const keyLimit = (node: Node, workflowId: number, key: string): Limit => ({
  key: `k:${workflowId}:${node.name}:${key}`,
  cap: node.concurrency ?? 1,
})
