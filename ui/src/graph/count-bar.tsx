import type { ReactElement } from "react"
import { lookOf } from "../components/status.ts"
import type { TaskStatus } from "../api/types.ts"
import { type Counts, totalOf } from "../run/state.ts"

const ORDER: readonly TaskStatus[] = ["success", "failed", "cancelled", "skipped", "running", "dispatched", "pending"]

/** The number of instances by status, as a bar. Other elements state the same as text. */
export const CountBar = ({ counts }: { counts: Counts }): ReactElement => (
  <span className="count-bar" aria-hidden="true">
    {totalOf(counts) === 0
      ? null
      : ORDER.filter((status) => counts[status] > 0).map((status) => (
          <span
            key={status}
            className={`progress-part progress-${status} tone-${lookOf(status).tone}`}
            style={{ flexGrow: counts[status] }}
          />
        ))}
  </span>
)
