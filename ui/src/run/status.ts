// Computes the status of a task from its own row and its instances.

import type { TaskStatus } from "../api/types.ts"
import { type Counts, isEnded, noCounts, type RunNode, type RunState, totalOf } from "./state.ts"

/** Priority of final statuses, worst first. */
const ENDS = ["failed", "cancelled", "success", "skipped"] as const

const wholeOf = (counts: Counts): TaskStatus | null => {
  if (counts.running > 0) return "running"
  const ended = ENDS.find((status) => counts[status] > 0)
  if (counts.dispatched > 0) return ended === undefined ? "dispatched" : "running"
  if (counts.pending > 0) return ended === undefined ? "pending" : "running"
  return ended ?? null
}

/** Returns the status of a task. A task of a group that ended before the task had an instance counts as skipped, not as pending. */
export const statusOf = (state: RunState, node: RunNode): TaskStatus => {
  const status = ownStatus(state, node)
  if (status !== "pending" || node.group === null || hasInstances(state, node)) return status
  const outer = statusOf(state, state.nodes[node.group]!)
  return isEnded(outer) ? (outer === "cancelled" ? outer : "skipped") : status
}

const hasInstances = (state: RunState, node: RunNode): boolean =>
  totalOf(node.counts) > 0 || node.members.some((index) => hasInstances(state, state.nodes[index]!))

const ownStatus = (state: RunState, node: RunNode): TaskStatus => {
  // The status of the task's own row takes precedence where there is one.
  if (node.around === 0 && (node.isGroup || node.fanOut !== null) && (isEnded(node.own) || node.own === "running")) {
    return node.own
  }
  if (!node.isGroup) return wholeOf(node.counts) ?? node.own
  const counts = noCounts()
  for (const index of node.members) {
    const member = state.nodes[index]!
    if (hasInstances(state, member)) counts[ownStatus(state, member)] += 1
  }
  return wholeOf(counts) ?? node.own
}

/** Returns when a failed task without fan-out is retried, if it is waiting. */
export const retryAtOf = (node: RunNode): number | null => {
  const only = node.instances.size === 1 ? node.instances.values().next().value : undefined
  return only !== undefined && only.status === "pending" ? only.availableAt : null
}

/** Compares paths numerically: `2` before `10`, `1.9` before `1.10`. */
export const comparePaths = (a: string, b: string): number => {
  if (a === b) return 0
  const left = a.split(".")
  const right = b.split(".")
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = Number(left[i]) - Number(right[i])
    if (difference !== 0) return difference
  }
  return left.length - right.length
}
