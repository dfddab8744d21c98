// The timeline of a run.

import type { ReactElement } from "react"
import { TimelineView } from "../../timeline/timeline-view.tsx"
import { useThisRun } from "../../run/use-run.ts"
import { useSelection } from "./selection.ts"

export const TimelineTab = (): ReactElement | null => {
  const { query, state, version } = useThisRun()
  const { task, path, open } = useSelection()
  if (state === null || query.data === undefined) return null
  return (
    <section className="card" aria-label="Timeline">
      <TimelineView
        run={query.data}
        state={state}
        version={version}
        selected={task === null ? null : { task, path }}
        onOpen={open}
      />
    </section>
  )
}
