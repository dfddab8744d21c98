// The timeline as a table, for screen readers and for copying.

import { type ReactElement, useState } from "react"
import { StatusBadge } from "../components/badge.tsx"
import { Button } from "../components/button.tsx"
import { absoluteTime, durationText, plural } from "../format/time.ts"
import { drawingOf, type TimelineModel } from "./model.ts"
import type { Row } from "./rows.ts"
import type { Segment } from "./segments.ts"
import { Table } from "../components/table.tsx"
import { instanceName } from "../run/state.ts"

const COLUMNS = ["Task", "Status", "Began", "Waited", "Ran", "Attempts", "Critical path"]

const PAGE = 200

const lengthOf = (segments: readonly Segment[], kinds: readonly Segment["kind"][]): string => {
  const found = segments.filter(({ kind }) => kinds.includes(kind))
  return found.length === 0 ? "–" : durationText(found.reduce((sum, { from, to }) => sum + to - from, 0))
}

export const TimelineTable = ({
  rows,
  model,
  now,
  onOpen,
}: {
  rows: readonly Row[]
  model: TimelineModel
  now: number
  onOpen: (task: string, path: string) => void
}): ReactElement => {
  const [count, setCount] = useState(PAGE)
  return (
    <>
      <div className="table-frame">
        <Table columns={COLUMNS}>
          {rows.slice(0, count).map((row) => (
            <TableRow key={row.id} row={row} model={model} now={now} onOpen={onOpen} />
          ))}
        </Table>
      </div>
      {rows.length <= count ? null : (
        <div className="pager">
          <span>{plural(rows.length, "row")}</span>
          <Button onClick={() => setCount(count + PAGE)}>Show more</Button>
        </div>
      )}
    </>
  )
}

const TableRow = ({
  row,
  model,
  now,
  onOpen,
}: {
  row: Row
  model: TimelineModel
  now: number
  onOpen: (task: string, path: string) => void
}) => {
  const { status, segments, critical } = drawingOf(model, row, now)
  const runs = segments.filter(({ kind }) => kind === "run")
  return (
    <tr>
      <td>
        <button type="button" className="link mono" onClick={() => onOpen(row.node.name, row.instance?.path ?? "")}>
          {row.instance === null ? row.node.name : instanceName(row.node.name, row.instance)}
        </button>
      </td>
      <td className="fit">
        <StatusBadge status={status} />
      </td>
      <td className="fit number">{runs[0] === undefined ? "–" : absoluteTime(runs[0].from)}</td>
      <td className="fit number">{lengthOf(segments, ["wait", "retry"])}</td>
      <td className="fit number">{lengthOf(segments, ["run"])}</td>
      <td className="fit number">{row.instance === null ? "–" : runs.length}</td>
      <td className="fit">{critical ? "yes" : "no"}</td>
    </tr>
  )
}
