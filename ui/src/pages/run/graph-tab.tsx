// The graph of a run, live.

import { type ReactElement, useCallback, useEffect, useState } from "react"
import { useThrottled } from "../../components/throttled.ts"
import { GraphFeed } from "../../graph/feed.ts"
import { GraphView } from "../../graph/graph-view.tsx"
import type { GraphTask } from "../../graph/model.ts"
import { comparePaths } from "../../run/status.ts"
import { useThisRun } from "../../run/use-run.ts"
import { useSelection } from "./selection.ts"

/** Shortest interval between renders of the minimap, in milliseconds. */
const OVERVIEW_MS = 700

export const GraphTab = (): ReactElement | null => {
  const { state, version } = useThisRun()
  const { task, path, open } = useSelection()
  const [feed] = useState(() => new GraphFeed())
  const [overview] = useState(() => new GraphFeed())
  useEffect(() => {
    if (state !== null) feed.publish(state)
  }, [feed, state, version])
  const later = useThrottled(version, OVERVIEW_MS)
  useEffect(() => {
    if (state !== null) overview.publish(state)
  }, [overview, state, later])
  // The tasks of a run never change, but their state object may be reloaded.
  const [tasks] = useState(() => state?.nodes ?? [])
  const pathsOf = useCallback(
    ({ name }: GraphTask) => [...(state?.byName.get(name)?.instances.keys() ?? [])].toSorted(comparePaths),
    [state],
  )
  if (state === null) return null
  return (
    <section className="card" aria-label="Graph">
      <GraphView
        tasks={tasks}
        label="Graph of the run"
        feed={feed}
        overview={overview}
        pathsOf={pathsOf}
        selected={task === null ? null : { task, path }}
        onOpen={open}
      />
    </section>
  )
}
