// The jobs page: queues, and a search with every filter of the API.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { jobsQuery, queuesQuery } from "../../api/queries.ts"
import type { Job } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { buttonClass } from "../../components/button.tsx"
import { SelectFilter } from "../../components/field.tsx"
import { Icon } from "../../components/icon.tsx"
import { Listed } from "../../components/listed.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { SearchBox } from "../../components/search-box.tsx"
import { Empty } from "../../components/states.tsx"
import { StatusFilter } from "../../components/status-filter.tsx"
import { TimeRange } from "../../components/time-range.tsx"
import { Duration, Time } from "../../components/time.tsx"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"
import { useMay } from "../../session/session.ts"
import { JOB_STATUSES, jobsSearch, PRIORITIES } from "../search.ts"
import { QueueTable } from "./queue-table.tsx"
import { Table } from "../../components/table.tsx"

const COLUMNS = [
  "Job",
  "Status",
  "Queue",
  { text: "Priority", className: "end wide" },
  { text: "Attempts", className: "end wide" },
  "Created",
  { text: "Duration", className: "end" },
]

const route = getRouteApi("/shell/jobs")

export const JobsPage = (): ReactElement => {
  const filter = route.useSearch()
  const { after, before, ...rest } = filter
  const query = useInfiniteQuery(jobsQuery({ ...rest, created_after: after, created_before: before }))
  const maySubmit = useMay("trigger")
  useListKeys()
  return (
    <div className="page">
      <PageHead
        title="Jobs"
        actions={
          maySubmit ? (
            <Link to="/jobs/new" className={buttonClass("primary")}>
              <Icon name="plus" />
              Submit a job
            </Link>
          ) : undefined
        }
      />
      <QueueTable />
      <JobFilters />
      <Listed
        query={query}
        noun="job"
        empty={
          Object.keys(filter).length > 0 ? (
            <Empty title="No job matches these filters" icon="search">
              <Link to="/jobs" className={buttonClass()}>
                Show all jobs
              </Link>
            </Empty>
          ) : (
            <Empty title="No jobs yet" icon="jobs">
              <p>A job is a single piece of work in a queue, run by a handler or by its own command.</p>
            </Empty>
          )
        }
      >
        {(jobs) => <JobTable jobs={jobs} />}
      </Listed>
    </div>
  )
}

const JobFilters = (): ReactElement => {
  const filter = route.useSearch()
  const navigate = route.useNavigate()
  const { data: queues = [] } = useQuery(queuesQuery)
  const set = (change: Parameters<typeof jobsSearch>[0]): void =>
    void navigate({ search: (old) => jobsSearch({ ...old, ...change }), replace: true })
  return (
    <div className="filters">
      <SearchBox
        label="Queue"
        value={filter.queue}
        choices={queues.map(({ name }) => name)}
        onChange={(queue) => set({ queue })}
      />
      <StatusFilter value={filter.status} statuses={JOB_STATUSES} onChange={(status) => set({ status })} />
      <PriorityFilter bound="from" value={filter.priority_min} onChange={(least) => set({ priority_min: least })} />
      <PriorityFilter bound="to" value={filter.priority_max} onChange={(most) => set({ priority_max: most })} />
      <TimeRange after={filter.after} before={filter.before} onChange={set} />
    </div>
  )
}

const PRIORITY_CHOICES = PRIORITIES.map((priority) => ({ value: priority, text: priority }))

const PriorityFilter = ({
  bound,
  value,
  onChange,
}: {
  bound: "from" | "to"
  value: string | undefined
  onChange: (priority: string | undefined) => void
}): ReactElement => (
  <SelectFilter label={`Priority ${bound}`} value={value} all="Any" choices={PRIORITY_CHOICES} onChange={onChange} />
)

const JobTable = ({ jobs }: { jobs: readonly Job[] }): ReactElement => (
  <Table columns={COLUMNS}>
    {jobs.map((job) => (
      <tr key={job.id} data-row="">
        <td>
          <Link to="/jobs/$jobId" params={{ jobId: job.id }} className="row-link">
            {job.name}
          </Link>
          {job.error === null ? null : <div className="soft small clip job-error">{job.error}</div>}
        </td>
        <td className="fit">
          <StatusBadge status={job.status} />
        </td>
        <td className="fit mono">{job.queue}</td>
        <td className="fit end number wide">{job.priority}</td>
        <td className="fit end number wide">
          {job.attempt_count} of {job.retry_policy.max_attempts}
        </td>
        <td className="fit soft">
          <Time at={job.created_at} />
        </td>
        <td className="fit end">
          <Duration from={job.started_at} to={job.finished_at} />
        </td>
      </tr>
    ))}
  </Table>
)
