// How one task of the graph stands as a whole, from the counts of its rows. A fan-out or a group has rows of its own for that; inside
// of fanned groups there are several of them.

import type { TaskStatus } from "../../core/model/status.ts"
import { TASK_STATUSES, taskEnded } from "../../core/model/status.ts"
import type { Node } from "../../core/model/workflow.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { RowCount } from "../../store/contract/run-view.ts"

export interface NodeSummary {
  status: TaskStatus
  /** Of its instances. */
  counts: Record<TaskStatus, number>
  startedAt: string | null
  /** Only when it has ended. */
  finishedAt: string | null
}

/** Worst first: what several that have ended amount to. */
const ENDS = ["failed", "cancelled", "success", "skipped"] as const

export const nodeSummary = (node: Pick<Node, "executor" | "fan">, rows: readonly RowCount[]): NodeSummary => {
  const kind = node.fan !== undefined ? "fan" : isGroup(node) ? "group" : "task"
  const own = countsOf(rows.filter((row) => row.kind === kind))
  const status = wholeOf(own)
  const started = rows.flatMap(({ startedAt }) => startedAt ?? [])
  const finished = rows.flatMap(({ finishedAt }) => finishedAt ?? [])
  return {
    status,
    counts: countsOf(rows.filter((row) => row.kind === "task")),
    startedAt: started.toSorted()[0] ?? null,
    finishedAt: taskEnded(status) ? (finished.toSorted().at(-1) ?? null) : null,
  }
}

const countsOf = (rows: readonly RowCount[]): Record<TaskStatus, number> => {
  const counts = Object.fromEntries(TASK_STATUSES.map((status) => [status, 0])) as Record<TaskStatus, number>
  for (const { status, count } of rows) counts[status] += count
  return counts
}

const wholeOf = (counts: Record<TaskStatus, number>): TaskStatus => {
  if (counts.running > 0) return "running"
  const ended = ENDS.find((status) => counts[status] > 0)
  if (counts.dispatched > 0) return ended === undefined ? "dispatched" : "running"
  if (counts.pending > 0) return ended === undefined ? "pending" : "running"
  return ended ?? "pending"
}
