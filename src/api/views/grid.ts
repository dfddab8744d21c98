// The grid of a workflow: tasks by runs. It has one row for every task of any of the runs, in the order of the newest definition.

import type { z } from "zod"
import type { Node } from "../../core/model/workflow.ts"
import type { grid } from "../../protocol/api/run-views.ts"
import type { RowCount } from "../../store/contract/run-view.ts"
import type { RunRow } from "../../store/contract/store.ts"
import { nodeSummary } from "./node-status.ts"

export interface GridRun {
  run: RunRow
  nodes: readonly Node[]
  rows: readonly RowCount[]
}

type Grid = z.output<typeof grid>
type Cell = Grid["runs"][number]["cells"][number]

/** Builds the grid from runs, newest first. */
export const gridShape = (workflow: string, runs: readonly GridRun[]): Grid => {
  const tasks = new Map<string, Grid["tasks"][number]>()
  for (const { nodes } of runs) {
    for (const node of nodes) {
      if (tasks.has(node.name)) continue
      const group = node.group === null ? null : nodes[node.group]!.name
      tasks.set(node.name, { name: node.name, group, fan_out: node.fan !== undefined, hook: node.hook !== null })
    }
  }
  return {
    workflow,
    tasks: [...tasks.values()],
    runs: runs.map(({ run, nodes, rows }) => {
      const cells = cellsOf(nodes, rows)
      return {
        id: run.id,
        number: run.number,
        version: run.version,
        status: run.status,
        trigger: run.trigger,
        logical_date: run.logicalDate,
        created_at: run.createdAt,
        started_at: run.startedAt,
        finished_at: run.finishedAt,
        idle_ms: run.idleMs,
        cells: [...tasks.keys()].map((name) => cells.get(name) ?? null),
      }
    }),
  }
}

const cellsOf = (nodes: readonly Node[], rows: readonly RowCount[]): Map<string, Cell> => {
  const cells = new Map<string, Cell>()
  for (const [index, found] of Map.groupBy(rows, ({ node }) => node)) {
    const node = nodes[index]!
    const { status, counts, startedAt, finishedAt } = nodeSummary(node, found)
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
    const ms = startedAt === null || finishedAt === null ? null : Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt))
    cells.set(node.name, {
      status,
      ...((node.fan !== undefined || total > 1) && { total, failed: counts.failed }),
      duration_ms: ms,
    })
  }
  return cells
}
