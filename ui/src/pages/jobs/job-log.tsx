import { queryOptions, useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { open, urlOf } from "../../api/http.ts"
import type { Job } from "../../api/types.ts"
import { buttonClass } from "../../components/button.tsx"
import { Code } from "../../components/code.tsx"
import { Icon } from "../../components/icon.tsx"
import { Loaded } from "../../components/states.tsx"

/** The end of the log; the whole of it is a download. */
const TAIL_BYTES = 65_536
const LIVE_MS = 2000

const logQuery = (id: string) =>
  queryOptions({
    queryKey: ["job-log", id],
    queryFn: async ({ signal }) => await (await open(`/jobs/${id}/logs`, { query: { offset: -TAIL_BYTES }, signal })).text(),
  })

export const JobLog = ({ job, live }: { job: Job; live: boolean }): ReactElement => {
  const query = useQuery({ ...logQuery(job.id), refetchInterval: live && job.attempt_count > 0 ? LIVE_MS : false })
  return (
    <section className="stack" aria-labelledby="log-title">
      <div className="row">
        <h2 id="log-title">Log</h2>
        <a className={`${buttonClass("quiet")} button-small`} href={urlOf(`/jobs/${job.id}/logs`)} download={`${job.id}.log`}>
          <Icon name="download" />
          Download
        </a>
      </div>
      <Loaded query={query} what="Loading the log">
        {(text) =>
          text === "" ? <p className="soft">It wrote nothing{live ? " yet" : ""}.</p> : <Code text={text} label="Log" />
        }
      </Loaded>
    </section>
  )
}
