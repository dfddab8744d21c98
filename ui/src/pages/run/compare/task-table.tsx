// A table of all tasks of both runs: status, durations as bars, and outputs on demand.

import { useQuery } from "@tanstack/react-query"
import { type ReactElement, useState } from "react"
import { taskQuery } from "../../../api/queries.ts"
import { shortBytes } from "../../../../../src/core/values/quantities.ts"
import { StatusBadge } from "../../../components/badge.tsx"
import { Button } from "../../../components/button.tsx"
import { JsonView } from "../../../components/code.tsx"
import { Loaded } from "../../../components/states.tsx"
import { durationText, plural } from "../../../format/time.ts"
import { type Comparison, sameJson, type TaskRow, type TaskSide } from "./compare.ts"
import { Table } from "../../../components/table.tsx"

const COLUMNS = [
  "Task",
  "This run",
  "The other",
  { text: "Duration", className: "compare-bars-head" },
  { text: "Difference", className: "end" },
  { hidden: "Outputs" },
]

const SHOWN = 100

export const TaskTable = ({
  compared: { tasks, longest },
  here,
  there,
}: {
  compared: Comparison
  here: string
  there: string
}): ReactElement => {
  const [all, setAll] = useState(false)
  const [opened, setOpened] = useState<string | null>(null)
  const rows = all ? tasks : tasks.slice(0, SHOWN)
  return (
    <section className="card" aria-label="Tasks">
      <header className="card-head">
        <h2>Tasks</h2>
        <span className="soft small">what got slower first</span>
        <span className="compare-legend" aria-hidden="true">
          <i className="compare-bar-here" /> this run <i className="compare-bar-there" /> the other
        </span>
      </header>
      <div className="table-frame" tabIndex={0} role="region" aria-label="Tasks, rows">
        <Table columns={COLUMNS}>
          {rows.map((row) => (
            <Row
              key={row.name}
              row={row}
              longest={longest}
              open={opened === row.name}
              onOpen={() => setOpened(opened === row.name ? null : row.name)}
              runs={{ here, there }}
            />
          ))}
        </Table>
      </div>
      {rows.length < tasks.length ? (
        <div className="pager">
          <span>{plural(rows.length, "task")}</span>
          <Button onClick={() => setAll(true)}>Show all {tasks.length.toLocaleString("en")}</Button>
        </div>
      ) : null}
    </section>
  )
}

const Row = ({
  row,
  longest,
  open,
  onOpen,
  runs,
}: {
  row: TaskRow
  longest: number
  open: boolean
  onOpen: () => void
  runs: { here: string; there: string }
}): ReactElement => (
  <>
    <tr>
      <td>{row.name}</td>
      <td className="fit">
        {row.here === null ? <span className="faint">none</span> : <StatusBadge status={row.here.status} />}
      </td>
      <td className="fit">
        {row.there === null ? <span className="faint">none</span> : <StatusBadge status={row.there.status} />}
      </td>
      <td>
        <Bar side={row.here} longest={longest} className="compare-bar-here" />
        <Bar side={row.there} longest={longest} className="compare-bar-there" />
      </td>
      <td className="fit end number">{differenceText(row.slower)}</td>
      <td className="fit">
        <Button kind="quiet" aria-expanded={open} aria-label={`Outputs of ${row.name}`} onClick={onOpen}>
          Outputs
        </Button>
      </td>
    </tr>
    {open ? (
      <tr>
        <td colSpan={6}>
          <Outputs name={row.name} runs={runs} />
        </td>
      </tr>
    ) : null}
  </>
)

const differenceText = (slower: number | null): string => {
  if (slower === null) return "–"
  if (slower === 0) return "the same"
  return `${durationText(Math.abs(slower))} ${slower > 0 ? "slower" : "faster"}`
}

const Bar = ({ side, longest, className }: { side: TaskSide | null; longest: number; className: string }): ReactElement => {
  const ms = side?.ms ?? null
  return (
    <div className="compare-bar">
      {ms === null ? null : <span className={className} style={{ width: `${longest === 0 ? 0 : (80 * ms) / longest}%` }} />}
      <span className="soft small number">{ms === null ? "–" : durationText(ms)}</span>
    </div>
  )
}

const Outputs = ({ name, runs }: { name: string; runs: { here: string; there: string } }): ReactElement => {
  const here = useQuery({ ...taskQuery(runs.here, name, ""), retry: false })
  const there = useQuery({ ...taskQuery(runs.there, name, ""), retry: false })
  const both = here.data !== undefined && there.data !== undefined
  return (
    <div className="stack">
      {both && here.data.output_object === null ? (
        <p className="soft">
          {sameJson(here.data.output, there.data.output) ? "The outputs are the same." : "The outputs differ."}
        </p>
      ) : null}
      <div className="columns">
        {(
          [
            ["This run", here],
            ["The other", there],
          ] as const
        ).map(([title, query]) => (
          <section key={title} className="stack" aria-label={`Output: ${title}`}>
            <h3>{title}</h3>
            {query.isError ? (
              <p className="soft">No single output: {query.error.message}</p>
            ) : (
              <Loaded query={query} what="Loading the output">
                {(task) =>
                  task.output_object === null ? (
                    <JsonView value={task.output} label={`Output, ${title}`} />
                  ) : (
                    <p className="soft">
                      {shortBytes(task.output_object.bytes)}, kept as <code>{task.output_object.key}</code>
                    </p>
                  )
                }
              </Loaded>
            )}
          </section>
        ))}
      </div>
    </div>
  )
}
