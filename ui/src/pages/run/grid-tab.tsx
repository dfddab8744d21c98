// The grid of this run and the last runs of its workflow.

import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { gridQuery } from "../../api/queries.ts"
import { Loaded } from "../../components/states.tsx"
import { plural } from "../../format/time.ts"
import { GridView } from "../../grid/grid-view.tsx"
import { useThisRun } from "../../run/use-run.ts"
import { useLiveGrid } from "../../grid/use-live-grid.ts"

export const GridTab = (): ReactElement | null => {
  const { query } = useThisRun()
  return query.data === undefined ? null : <OfWorkflow workflow={query.data.workflow} runId={query.data.id} />
}

const OfWorkflow = ({ workflow, runId }: { workflow: string; runId: string }): ReactElement => {
  const query = useQuery(gridQuery(workflow, runId))
  useLiveGrid(workflow, runId)
  return (
    <section className="card" aria-label="Grid">
      <Loaded query={query} what="Loading the last runs">
        {(grid) => (
          <>
            <p className="card-head small soft">
              {grid.runs.length === 1 ? "The only run" : `The last ${plural(grid.runs.length, "run")}`} of {workflow}, oldest
              first. Bars show how long each took.
            </p>
            <GridView grid={grid} current={runId} />
          </>
        )}
      </Loaded>
    </section>
  )
}
