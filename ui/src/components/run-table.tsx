// A table of runs: identity, progress and duration.

import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import type { Run, TaskStatus } from "../api/types.ts"
import { StatusBadge } from "./badge.tsx"
import { lookOf } from "./status.ts"
import { RunDuration, Time } from "./time.tsx"
import { Table } from "./table.tsx"

const COLUMNS = [
  "Run",
  "Status",
  { text: "Tasks", className: "wide" },
  { text: "Trigger", className: "wide" },
  "Created",
  { text: "Duration", className: "end" },
]

export interface Selection {
  ids: ReadonlySet<string>
  set: (id: string, selected: boolean) => void
  setAll: (selected: boolean) => void
}

/** Returns the name of a run for people: `etl#12`. */
export const runName = ({ workflow, number }: Pick<Run, "workflow" | "number">): string => `${workflow}#${number}`

/** Returns the end of a UUIDv7, which is random and therefore distinguishes runs. */
export const shortId = (id: string): string => id.slice(-8)

export const RunTable = ({
  runs,
  workflow = true,
  selection,
}: {
  runs: readonly Run[]
  /** Shows the workflow of each run. */
  workflow?: boolean
  selection?: Selection
}): ReactElement => (
  <Table
    columns={COLUMNS}
    first={
      selection === undefined ? null : (
        <th scope="col" className="fit">
          <input
            type="checkbox"
            className="check"
            aria-label="Select all runs shown"
            checked={runs.every((run) => selection.ids.has(run.id))}
            onChange={(event) => selection.setAll(event.target.checked)}
          />
        </th>
      )
    }
  >
    {runs.map((run) => (
      <RunRow key={run.id} run={run} workflow={workflow} selection={selection} />
    ))}
  </Table>
)

const RunRow = ({
  run,
  workflow,
  selection,
}: {
  run: Run
  workflow: boolean
  selection: Selection | undefined
}): ReactElement => (
  <tr data-row="">
    {selection === undefined ? null : (
      <td className="fit">
        <input
          type="checkbox"
          className="check"
          aria-label={`Select run ${runName(run)}`}
          checked={selection.ids.has(run.id)}
          onChange={(event) => selection.set(run.id, event.target.checked)}
        />
      </td>
    )}
    <td>
      <Link to="/runs/$runId" params={{ runId: run.id }} className="row-link">
        {workflow ? run.workflow : null}
        <span className="run-number">#{run.number}</span>
      </Link>
      <span className="faint mono small run-id roomy" title={run.id}>
        {shortId(run.id)}
      </span>
    </td>
    <td className="fit">
      <StatusBadge status={run.paused ? "paused" : run.status} />
    </td>
    <td className="fit wide">
      <Progress tasks={run.tasks} />
    </td>
    <td className="fit soft wide">{run.trigger}</td>
    <td className="fit soft">
      <Time at={run.created_at} />
    </td>
    <td className="fit end">
      <RunDuration run={run} />
    </td>
  </tr>
)

const ORDER: readonly TaskStatus[] = ["success", "failed", "cancelled", "skipped", "running", "dispatched", "pending"]

/** The number of tasks by status, as a bar and as text. */
export const Progress = ({ tasks }: { tasks: Run["tasks"] }): ReactElement => {
  const parts = ORDER.filter((status) => tasks[status] > 0)
  const total = parts.reduce((sum, status) => sum + tasks[status], 0)
  const ended = tasks.success + tasks.failed + tasks.cancelled + tasks.skipped
  const words = parts.map((status) => `${tasks[status]} ${lookOf(status).text}`).join(", ")
  return (
    <span className="progress" title={words}>
      <span className="progress-bar" role="img" aria-label={`Tasks: ${words === "" ? "none" : words}`}>
        {parts.map((status) => (
          <span
            key={status}
            className={`progress-part progress-${status} tone-${lookOf(status).tone}`}
            style={{ flexGrow: tasks[status] }}
          />
        ))}
      </span>
      <span className="soft small number" aria-hidden="true">
        {ended}/{total}
      </span>
    </span>
  )
}
