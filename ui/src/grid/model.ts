// The view model of the grid: rows with their depth, columns oldest first with the height of their bar. Pure.

import type { Grid } from "../api/types.ts"
import { durationText } from "../format/time.ts"
import { runDuration } from "../run/duration.ts"

export interface GridRow {
  name: string
  short: string
  depth: number
  /** Index in the cells of each run. */
  index: number
  isGroup: boolean
}

export interface GridColumn {
  id: string
  number: number
  status: Grid["runs"][number]["status"]
  createdAt: string
  /** null before the start. */
  ms: number | null
  /** Fraction of the longest run, 0 to 1; with a visible minimum. */
  height: number
  cells: Grid["runs"][number]["cells"]
}

/** Lists groups before their tasks; the tasks of closed groups are omitted. */
export const gridRows = ({ tasks }: Grid, closed: ReadonlySet<string>): GridRow[] => {
  const inside = Map.groupBy(
    tasks.map((task, index) => ({ ...task, index })),
    ({ group }) => group,
  )
  const rows: GridRow[] = []
  const add = (group: string | null, depth: number): void => {
    for (const { name, index } of inside.get(group) ?? []) {
      const isGroup = inside.has(name)
      rows.push({ name, short: group === null ? name : name.slice(group.length + 1), depth, index, isGroup })
      if (isGroup && !closed.has(name)) add(name, depth + 1)
    }
  }
  add(null, 0)
  return rows
}

const LEAST = 0.06

export const gridColumns = ({ runs }: Grid, now: number): GridColumn[] => {
  const lengths = runs.map((run) => runDuration(run, now))
  const longest = Math.max(1, ...lengths.map((length) => length ?? 0))
  return runs
    .map(({ id, number, status, created_at, cells }, i): GridColumn => {
      const ms = lengths[i]!
      return {
        id,
        number,
        status,
        createdAt: created_at,
        ms,
        height: ms === null ? LEAST : Math.max(LEAST, ms / longest),
        cells,
      }
    })
    .toReversed()
}

/** Describes a cell as text. */
export const cellWords = (cell: NonNullable<GridColumn["cells"][number]>, status: string): string => {
  const instances = cell.total === undefined ? "" : `, ${cell.total} instances${cell.failed ? `, ${cell.failed} failed` : ""}`
  return `${status}${instances}${cell.duration_ms === null ? "" : `, ${durationText(cell.duration_ms)}`}`
}
