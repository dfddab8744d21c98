// The timeline (Gantt chart) of a run, also as a table, and its critical path.

import { type ReactElement, useCallback, useMemo, useState } from "react"
import type { Run } from "../api/types.ts"
import { Button } from "../components/button.tsx"
import { useNow } from "../components/now.ts"
import { Empty } from "../components/states.tsx"
import { useThrottled } from "../components/throttled.ts"
import { durationText } from "../format/time.ts"
import { instanceName, type RunState, runCounts, totalOf } from "../run/state.ts"
import "../styles/views.css"
import "../styles/timeline.css"
import { type TimelineModel, timelineModel } from "./model.ts"
import { rowsOf } from "./rows.ts"
import { TimelineCanvas } from "./timeline-canvas.tsx"
import { TimelineTable } from "./timeline-table.tsx"

/** Above this number of instances the timeline updates a few times per second instead of every frame. */
const MANY = 1000
const MANY_MS = 250

const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at))

export interface TimelineViewProps {
  run: Run
  state: RunState
  version: number
  selected: { task: string; path: string } | null
  onOpen: (task: string, path: string) => void
}

export const TimelineView = ({ run, state, version, selected, onOpen }: TimelineViewProps): ReactElement => {
  const [asTable, setAsTable] = useState(false)
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const shown = useThrottled(version, totalOf(runCounts(state)) > MANY ? MANY_MS : 0)
  const startedAt = ms(run.started_at)
  const { idle_ms: idleMs } = run
  const now = useNow(run.finished_at === null)
  // Only breaks depend on the time.
  const until = ms(run.finished_at) ?? (idleMs === 0 ? 0 : now)
  // The state object is mutable; the version indicates changes.
  const { model, rows } = useMemo(
    () => ({
      model: timelineModel(state, { startedAt, idleMs, now: until }),
      rows: rowsOf(state, toggled),
      shown,
    }),
    [state, startedAt, idleMs, until, toggled, shown],
  )
  const fold = useCallback((task: string): void => {
    setToggled((before) => {
      const next = new Set(before)
      if (!next.delete(task)) next.add(task)
      return next
    })
  }, [])
  if (startedAt === null) {
    return (
      <Empty title="Nothing has started yet" icon="clock">
        The timeline begins with the first task.
      </Empty>
    )
  }
  return (
    <>
      <div className="tl-head">
        <CriticalPath model={model} />
        <Button kind="quiet" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show as timeline" : "Show as table"}
        </Button>
      </div>
      {asTable ? (
        <TimelineTable rows={rows} model={model} now={now} onOpen={onOpen} />
      ) : (
        <TimelineCanvas run={run} rows={rows} model={model} version={shown} selected={selected} onOpen={onOpen} fold={fold} />
      )}
    </>
  )
}

const CriticalPath = ({ model: { path, state } }: { model: TimelineModel }): ReactElement => {
  const names = path.map((instance) => instanceName(state.nodes[instance.node]!.name, instance))
  const ran = path.reduce((sum, { startedAt, finishedAt }) => sum + finishedAt! - startedAt!, 0)
  return (
    <p className="small soft tl-path">
      {path.length === 0 ? (
        "The critical path is known when a task has ended."
      ) : (
        <>
          <span className="tl-key tl-critical" /> Critical path, {durationText(ran)} of work:{" "}
          <span className="mono">{names.join(" → ")}</span>
        </>
      )}
    </p>
  )
}
