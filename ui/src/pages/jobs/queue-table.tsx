import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import type { ReactElement, ReactNode } from "react"
import { calls } from "../../api/calls.ts"
import { queuesQuery } from "../../api/queries.ts"
import type { Queue } from "../../api/types.ts"
import { Empty, Loaded } from "../../components/states.tsx"
import { Switch } from "../../components/switch.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { countText } from "../../format/count.ts"
import { durationText } from "../../format/time.ts"
import { useMay } from "../../session/session.ts"
import { Table } from "../../components/table.tsx"

const COLUMNS = [
  "Queue",
  { text: "Ready", className: "end" },
  { text: "Oldest", className: "end" },
  { text: "Running", className: "end" },
  { text: "Ended per minute", className: "end" },
  { text: "At once", className: "end" },
  { text: "Rate", className: "end" },
  "Active",
]

/** All queues: ready and running tasks, age, rate and pause. */
export const QueueTable = (): ReactElement => {
  const query = useQuery(queuesQuery)
  return (
    <section className="card" aria-labelledby="queues-title">
      <header className="card-head">
        <h2 id="queues-title">Queues</h2>
      </header>
      <Loaded query={query} what="Loading the queues">
        {(queues) =>
          queues.length === 0 ? (
            <Empty title="No queue has been used yet" icon="jobs" />
          ) : (
            <div className="table-frame">
              <Table columns={COLUMNS}>
                {queues.map((queue) => (
                  <QueueRow key={queue.name} queue={queue} />
                ))}
              </Table>
            </div>
          )
        }
      </Loaded>
    </section>
  )
}

const none = (value: ReactNode | null): ReactNode => value ?? <span className="faint">–</span>

const QueueRow = ({ queue }: { queue: Queue }): ReactElement => {
  const { name, ready, running, oldest_ready_seconds: oldest, concurrency, rate_limit: rate, ended_per_minute: ended } = queue
  return (
    <tr className="stacked">
      <td>
        <Link to="/jobs" search={{ queue: name }} className="row-link">
          {name}
        </Link>
      </td>
      <td className="end number" data-label="Ready">
        {countText(ready)}
      </td>
      <td className="end number" data-label="Oldest">
        {none(oldest === null ? null : durationText(oldest * 1000))}
      </td>
      <td className="end number" data-label="Running">
        {countText(running)}
      </td>
      <td className="end number" data-label="Per minute">
        {none(ended === null ? null : countText(ended))}
      </td>
      <td className="end number" data-label="At once">
        {none(concurrency === null ? null : countText(concurrency))}
      </td>
      <td className="end number" data-label="Rate">
        {none(rate === null ? null : `${rate.limit} in ${durationText(rate.period_seconds * 1000)}`)}
      </td>
      <td className="fit">
        <QueueSwitch queue={queue} />
      </td>
    </tr>
  )
}

const QueueSwitch = ({ queue: { name, paused } }: { queue: Queue }): ReactElement => {
  const may = useMay("admin")
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: (active: boolean) => calls.setQueue(name, { paused: !active }),
    onSuccess: async (_queue, active) => {
      showMessage(active ? `Queue ${name} goes on` : `Queue ${name} rests`)
      await client.invalidateQueries({ queryKey: queuesQuery.queryKey })
    },
    onError: (error) => showProblem(`Could not change queue ${name}`, error),
  })
  return (
    <Switch
      label={`Queue ${name}`}
      checked={change.isPending ? change.variables : !paused}
      disabled={!may || change.isPending}
      onChange={(active) => change.mutate(active)}
    />
  )
}
