// Summarises the rows of one node: status, counts and times. A fan-out or a group has container rows, which determine its status; inside a
// fanned-out group it has several of them.

import type { TaskStatus } from "../../core/model/status.ts"
import { TASK_STATUSES, isTaskFinished } from "../../core/model/status.ts"
import type { Node } from "../../core/model/workflow.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { RowCount } from "../../store/contract/run-view.ts"

export interface NodeSummary {
  status: TaskStatus
  /** Number of instances by status. */
  counts: Record<TaskStatus, number>
  startedAt: string | null
  /** null until all rows have ended. */
  finishedAt: string | null
}

/** Final statuses, by precedence in a summary. */
const PRECEDENCE = ["failed", "cancelled", "success", "skipped"] as const

export const nodeSummary = (node: Pick<Node, "executor" | "fan">, rows: readonly RowCount[]): NodeSummary => {
  const kind = node.fan !== undefined ? "fan" : isGroup(node) ? "group" : "task"
  const status = summaryStatus(countsOf(rows.filter((row) => row.kind === kind)))
  const started = rows.flatMap(({ startedAt }) => startedAt ?? [])
  const finished = rows.flatMap(({ finishedAt }) => finishedAt ?? [])
  return {
    status,
    counts: countsOf(rows.filter((row) => row.kind === "task")),
    startedAt: started.toSorted()[0] ?? null,
    finishedAt: isTaskFinished(status) ? (finished.toSorted().at(-1) ?? null) : null,
  }
}

const countsOf = (rows: readonly RowCount[]): Record<TaskStatus, number> => {
  const counts = Object.fromEntries(TASK_STATUSES.map((status) => [status, 0])) as Record<TaskStatus, number>
  for (const { status, count } of rows) counts[status] += count
  return counts
}

const summaryStatus = (counts: Record<TaskStatus, number>): TaskStatus => {
  if (counts.running > 0) return "running"
  const ended = PRECEDENCE.find((status) => counts[status] > 0)
  if (counts.dispatched > 0) return ended === undefined ? "dispatched" : "running"
  if (counts.pending > 0) return ended === undefined ? "pending" : "running"
  return ended ?? "pending"
}
