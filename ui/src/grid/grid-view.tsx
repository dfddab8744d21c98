// A table of tasks by the last runs of the workflow, with a bar of each run's duration above its column. Only visible rows are rendered.

import { Link } from "@tanstack/react-router"
import { type ReactElement, useRef, useState } from "react"
import type { Grid } from "../api/types.ts"
import { Icon } from "../components/icon.tsx"
import { useNow } from "../components/now.ts"
import { lookOf } from "../components/status.ts"
import { absoluteTime, durationText } from "../format/time.ts"
import { useVisibleArea } from "../timeline/use-visible-area.ts"
import "../styles/grid.css"
import { cellWords, type GridColumn, gridColumns, type GridRow, gridRows } from "./model.ts"

const ROW_HEIGHT = 28
const OVERSCAN = 20

export const GridView = ({ grid, current }: { grid: Grid; current: string }): ReactElement => {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set())
  const now = useNow(grid.runs.some(({ started_at, finished_at }) => started_at !== null && finished_at === null))
  const columns = gridColumns(grid, now)
  const rows = gridRows(grid, closed)
  const scroller = useRef<HTMLDivElement>(null)
  const { top, height } = useVisibleArea(scroller)
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - OVERSCAN)
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_HEIGHT) + OVERSCAN)
  const toggle = (name: string): void =>
    setClosed((before) =>
      before.has(name) ? new Set([...before].filter((each) => each !== name)) : new Set([...before, name]),
    )
  return (
    <div ref={scroller} className="grid-scroll">
      <table className="grid-table" aria-rowcount={rows.length + 1}>
        <caption className="hidden">Tasks of {grid.workflow} by its last runs, oldest first</caption>
        <thead>
          <tr>
            <th scope="col" className="grid-corner">
              <span className="hidden">Task</span>
            </th>
            {columns.map((column) => (
              <ColumnHead key={column.id} column={column} current={column.id === current} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} />
          {rows.slice(first, last).map((row) => (
            <tr key={row.name}>
              <th scope="row" className="grid-name" style={{ paddingLeft: `${1.6 + row.depth}rem` }}>
                <RowName row={row} closed={closed.has(row.name)} toggle={toggle} />
              </th>
              {columns.map((column) => (
                <Cell key={column.id} column={column} row={row} current={column.id === current} />
              ))}
            </tr>
          ))}
          <Gap rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  )
}

/** A spacer for rows that are not visible. */
const Gap = ({ rows }: { rows: number }): ReactElement | null =>
  rows <= 0 ? null : <tr aria-hidden="true" style={{ height: rows * ROW_HEIGHT }} />

const ColumnHead = ({ column, current }: { column: GridColumn; current: boolean }): ReactElement => {
  const look = lookOf(column.status)
  const length = column.ms === null ? "not begun" : durationText(column.ms)
  const label = `Run #${column.number}, ${look.text}, ${length}, created ${absoluteTime(Date.parse(column.createdAt))}`
  return (
    <th scope="col" className={current ? "grid-run grid-current" : "grid-run"}>
      <Link
        to="/runs/$runId"
        params={{ runId: column.id }}
        search={{ tab: "grid" }}
        preload={false}
        title={label}
        aria-label={label}
        aria-current={current ? "page" : undefined}
        className={`tick tick-${column.status} tone-${look.tone}`}
      >
        <span style={{ height: `${(100 * column.height).toFixed(1)}%` }} />
      </Link>
    </th>
  )
}

const RowName = ({ row, closed, toggle }: { row: GridRow; closed: boolean; toggle: (name: string) => void }): ReactElement =>
  row.isGroup ? (
    <button type="button" className="grid-fold" aria-expanded={!closed} onClick={() => toggle(row.name)}>
      <Icon name="chevron" />
      <span className="clip">{row.short}</span>
    </button>
  ) : (
    <span className="clip" title={row.name}>
      {row.short}
    </span>
  )

const Cell = ({ column, row, current }: { column: GridColumn; row: GridRow; current: boolean }): ReactElement => {
  const cell = column.cells[row.index] ?? null
  if (cell === null) {
    return (
      <td className={current ? "grid-current" : ""}>
        <span className="hidden">not in this run</span>
      </td>
    )
  }
  const look = lookOf(cell.status)
  const label = `${row.name} in run #${column.number}: ${cellWords(cell, look.text)}`
  return (
    <td className={current ? "grid-current" : ""}>
      <Link
        to="/runs/$runId"
        params={{ runId: column.id }}
        search={{ tab: "grid", task: row.name }}
        preload={false}
        title={label}
        aria-label={label}
        resetScroll={false}
        className={`grid-cell tone-${look.tone} grid-${cell.status}`}
      >
        <Icon name={look.icon} />
      </Link>
    </td>
  )
}
