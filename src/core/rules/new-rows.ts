// Which rows a run begins with, which hooks its end adds, and the limits that rows are under. Called by the stores.

import { gateLane, type RunLaneKey, workLane } from "../routing/lanes.ts"
import { isGroup, groupMembers } from "../model/task-path.ts"
import type { RunStatus } from "../model/status.ts"
import { type CompiledWorkflow, DEFAULT_PRIORITY, type HookEvent, type Node, rootNodes } from "../model/workflow.ts"

export interface Limit {
  key: string
  cap: number
}

export interface NewRow {
  node: number
  kind: "task" | "fan" | "group"
  upstreamPending: number
  lane: string
  priority: number
  limits: Limit[]
}

export interface PlannedRun extends RunLaneKey {
  priority: number
}

/** The run's own priority: the trigger's, else the workflow's, else 5. */
export const runPriority = (workflow: CompiledWorkflow, trigger: number | null): number =>
  trigger ?? workflow.priority ?? DEFAULT_PRIORITY

/** A task's own priority wins over the run's. */
export const taskPriority = (node: Node, runPriority: number): number => node.priority ?? runPriority

const TASK_LIMIT = "t:"

/** Whose limit this is: of a task, or a group, of one run. null: of something else. */
export const taskOfLimit = (key: string): { runId: string; node: number } | null => {
  const [, runId, node] = key.startsWith(TASK_LIMIT) ? key.split(":") : []
  return runId === undefined || node === undefined ? null : { runId, node: Number(node) }
}

/**
 * Limits on what runs at once that are known beforehand: tasks of the run, instances of this task in the run. With a
 * `concurrency_key` the gate adds the limit of that key. Hooks are not under the run's, nor are groups: their tasks are.
 */
export const limitsOf = (workflow: CompiledWorkflow, index: number, runId: string): Limit[] => {
  const node = workflow.nodes[index]!
  const limits: Limit[] = []
  if (node.hook === null && !isGroup(node) && workflow.concurrency !== undefined)
    limits.push({ key: `r:${runId}`, cap: workflow.concurrency })
  if (node.concurrency !== undefined && node.concurrencyKey === undefined)
    limits.push({ key: `${TASK_LIMIT}${runId}:${index}`, cap: node.concurrency })
  return limits
}

const newRow = (workflow: CompiledWorkflow, index: number, run: PlannedRun): NewRow => {
  const node = workflow.nodes[index]!
  const kind = node.fan !== undefined ? "fan" : isGroup(node) ? "group" : "task"
  return {
    node: index,
    kind,
    upstreamPending: node.upstream.length,
    lane: node.gated ? gateLane(run) : workLane(run, node),
    priority: taskPriority(node, run.priority),
    limits: kind === "fan" ? [] : limitsOf(workflow, index, run.id),
  }
}

export const initialRows = (workflow: CompiledWorkflow, run: PlannedRun): NewRow[] =>
  rootNodes(workflow).map((index) => newRow(workflow, index, run))

/**
 * The rows inside a group, in chunks of at most `size`. Of more than one chunk, a task comes no later than what it waits for: an
 * end must find the rows below it.
 */
export const innerRows = (workflow: CompiledWorkflow, group: number, run: PlannedRun, size: number): NewRow[][] => {
  const members = groupMembers(workflow, group)
  const row = (index: number): NewRow => newRow(workflow, index, run)
  if (members.length <= size) return [members.map(row)]
  const ordered = lowestFirst(workflow, members)
  const chunks: NewRow[][] = []
  for (let at = 0; at < ordered.length; at += size) chunks.push(ordered.slice(at, at + size).map(row))
  return chunks
}

const lowestFirst = (workflow: CompiledWorkflow, members: readonly number[]): number[] => {
  const left = new Map(members.map((index) => [index, workflow.nodes[index]!.downstream.length]))
  const order = members.filter((index) => left.get(index) === 0)
  for (let at = 0; at < order.length; at++) {
    for (const up of workflow.nodes[order[at]!]!.upstream) {
      const count = left.get(up)! - 1
      left.set(up, count)
      if (count === 0) order.push(up)
    }
  }
  return order
}

const HOOKS_OF = {
  success: ["on_success", "on_exit"],
  failed: ["on_failure", "on_exit"],
  cancelled: ["on_cancel", "on_exit"],
} as const satisfies Record<Extract<RunStatus, "success" | "failed" | "cancelled">, readonly HookEvent[]>

/** Hook rows to add in the transaction that ends the run. */
export const hookRows = (workflow: CompiledWorkflow, run: PlannedRun, status: "success" | "failed" | "cancelled"): NewRow[] => {
  const events: readonly HookEvent[] = HOOKS_OF[status]
  return workflow.nodes.flatMap((node, i) =>
    node.hook !== null && events.includes(node.hook) ? [newRow(workflow, i, run)] : [],
  )
}

/** The limit that instances with the same `concurrency_key` share, across all runs of the workflow. */
export const keyLimit = (node: Node, workflowId: number, key: string): Limit => ({
  key: `k:${workflowId}:${node.name}:${key}`,
  cap: node.concurrency ?? 1,
})
