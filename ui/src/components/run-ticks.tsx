import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import type { WorkflowSummary } from "../api/types.ts"
import { TICKS, ticksOf, ticksSummary } from "../pages/workflows/ticks.ts"
import { useNow } from "./now.ts"

/** The last runs as links. They are not in the tab order: twenty stops per row would be too many. */
export const RunTicks = ({ runs }: { runs: WorkflowSummary["last_runs"] }): ReactElement => {
  const now = useNow(runs.some((run) => run.finished_at === null))
  const ticks = ticksOf(runs, now)
  return (
    <ul className="ticks" aria-label={ticksSummary(runs)}>
      {Array.from({ length: TICKS - ticks.length }, (_, i) => (
        <li key={`none-${i}`} className="tick-none" aria-hidden="true" />
      ))}
      {ticks.map((tick) => (
        <li key={tick.id}>
          <Link
            to="/runs/$runId"
            params={{ runId: tick.id }}
            preload={false}
            tabIndex={-1}
            title={tick.label}
            aria-label={tick.label}
            className={`tick tick-${tick.status} tone-${tick.tone}`}
          >
            <span style={{ height: `${(100 * tick.height).toFixed(1)}%` }} />
          </Link>
        </li>
      ))}
    </ul>
  )
}
