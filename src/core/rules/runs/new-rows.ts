// Plans rows: those of a new run, those inside a group, the hooks of a closed run, and the limits of each. Called by the stores and
// by the gate.

import { concurrencyLimitKey, runLimitKey, taskLimitKey } from "../../routing/limit-keys.ts"
import { gateLane, type RunLaneKey, workLane } from "../../routing/lanes.ts"
import { isGroup, groupMembers } from "../../model/task-path.ts"
import type { Limit, NewRow } from "../../model/row.ts"
import type { RunStatus } from "../../model/status.ts"
import { type CompiledWorkflow, DEFAULT_PRIORITY, type HookEvent, type Node, rootNodes } from "../../model/workflow.ts"

export interface PlannedRun extends RunLaneKey {
  priority: number
}

/** Returns the priority of a run: the trigger's, else the workflow's, else 5. */
export const runPriority = (workflow: CompiledWorkflow, trigger: number | null): number =>
  trigger ?? workflow.priority ?? DEFAULT_PRIORITY

/** Returns the priority of a task: its own, else the run's. */
export const taskPriority = (node: Node, runPriority: number): number => node.priority ?? runPriority

/**
 * Returns the limits of a node that are known before the gate: `concurrency` of the workflow and of the task. The gate adds the limit
 * of a `concurrency_key`. The workflow's limit does not apply to hooks, nor to groups, whose tasks are under it.
 */
export const limitsOf = (workflow: CompiledWorkflow, index: number, runId: string): Limit[] => {
  const node = workflow.nodes[index]!
  const limits: Limit[] = []
  if (node.hook === null && !isGroup(node) && workflow.concurrency !== undefined)
    limits.push({ key: runLimitKey(runId), cap: workflow.concurrency })
  if (node.concurrency !== undefined && node.concurrencyKey === undefined)
    limits.push({ key: taskLimitKey(runId, index), cap: node.concurrency })
  return limits
}

/** Plans the row of a node before any of its upstreams has finished. */
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
 * Returns the rows inside a group in chunks of at most `size`. With several chunks, a task comes no later than its upstreams: a row
 * that finishes must find the rows below it.
 */
export const innerRows = (workflow: CompiledWorkflow, group: number, run: PlannedRun, size: number): NewRow[][] => {
  const members = groupMembers(workflow, group)
  const row = (index: number): NewRow => newRow(workflow, index, run)
  if (members.length <= size) return [members.map(row)]
  const ordered = downstreamFirst(workflow, members)
  const chunks: NewRow[][] = []
  for (let at = 0; at < ordered.length; at += size) chunks.push(ordered.slice(at, at + size).map(row))
  return chunks
}

/** Orders nodes so that each comes before its upstreams. */
const downstreamFirst = (workflow: CompiledWorkflow, members: readonly number[]): number[] => {
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

/** Returns the hook rows to insert in the transaction that closes the run. */
export const hookRows = (workflow: CompiledWorkflow, run: PlannedRun, status: "success" | "failed" | "cancelled"): NewRow[] => {
  const events: readonly HookEvent[] = HOOKS_OF[status]
  return workflow.nodes.flatMap((node, i) =>
    node.hook !== null && events.includes(node.hook) ? [newRow(workflow, i, run)] : [],
  )
}

/** Returns the limit that tasks with the same `concurrency_key` share across all runs of the workflow. */
export const keyLimit = (node: Node, workflowId: number, key: string): Limit => ({
  key: concurrencyLimitKey(workflowId, node.name, key),
  cap: node.concurrency ?? 1,
})
