import type { ReactElement } from "react"
import type { Job } from "../../api/types.ts"
import { jobLogAddress } from "../../logs/log-port.ts"
import { LogView } from "../../logs/log-view.tsx"

/** The log of the latest attempt. */
export const JobLog = ({ job, live }: { job: Job; live: boolean }): ReactElement => (
  <section className="stack" aria-labelledby="log-title">
    <h2 id="log-title">Log</h2>
    {job.attempt_count === 0 ? (
      <p className="soft">It has not begun.</p>
    ) : (
      <LogView
        key={job.attempt_count}
        address={jobLogAddress(job.id)}
        live={live}
        label={`Log of ${job.name}`}
        fileName={`${job.id}.log`}
        small
      />
    )}
  </section>
)
