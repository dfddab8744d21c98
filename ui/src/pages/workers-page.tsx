// The processes that run tasks: servers, workers and `ork run`, with their capabilities and load.

import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { workersQuery } from "../api/queries.ts"
import type { Worker } from "../api/types.ts"
import { StatusBadge, Tag } from "../components/badge.tsx"
import { PageHead } from "../components/page-head.tsx"
import { Empty, Loaded } from "../components/states.tsx"
import { Time } from "../components/time.tsx"
import { Table } from "../components/table.tsx"

const COLUMNS = ["Name", "Kind", "State", "Load", "Queues", "Labels", "Version", "Last seen"]

export const WorkersPage = (): ReactElement => {
  const query = useQuery(workersQuery)
  return (
    <div className="page">
      <PageHead title="Workers">
        <p className="soft">
          Processes that run tasks. A server runs some itself; more machines join with <code>ork worker</code>.
        </p>
      </PageHead>
      <div className="card">
        <Loaded query={query} what="Loading the workers">
          {(workers) =>
            workers.length === 0 ? <Empty title="Nothing runs tasks here" icon="workers" /> : <WorkerTable workers={workers} />
          }
        </Loaded>
      </div>
    </div>
  )
}

const KINDS = { server: "server", worker: "worker", run: "ork run", push: "push worker" } as const

const WorkerTable = ({ workers }: { workers: readonly Worker[] }): ReactElement => (
  <div className="table-frame">
    <Table columns={COLUMNS}>
      {workers.map((worker) => (
        <tr key={worker.id} className="stacked">
          <td className="mono">
            {worker.name}
            {worker.run_id === null ? null : (
              <>
                {" "}
                <Link to="/runs/$runId" params={{ runId: worker.run_id }}>
                  its run
                </Link>
              </>
            )}
          </td>
          <td className="fit">{KINDS[worker.kind]}</td>
          <td className="fit">
            <StatusBadge status={worker.alive ? "alive" : "dead"} />
          </td>
          <td className="fit">
            <Load running={worker.running} capacity={worker.capacity} />
          </td>
          <td data-label="Queues">
            <Names names={worker.queues} all="every queue" none="its own run" />
          </td>
          <td data-label="Labels">
            <Names names={worker.labels} all="any" none="–" />
          </td>
          <td className="fit soft" data-label="Version">
            {worker.version ?? "–"}
          </td>
          <td className="fit soft" data-label="Seen">
            <Time at={worker.last_seen_at} />
          </td>
        </tr>
      ))}
    </Table>
  </div>
)

const Load = ({ running, capacity }: { running: number; capacity: number | null }): ReactElement => {
  if (capacity === null) return <span className="number">{running}</span>
  const label = `${running} of ${capacity}`
  return (
    <span className="progress">
      <span className="progress-bar" role="img" aria-label={`Tasks at once: ${label}`}>
        <span
          className="progress-part tone-running"
          style={{ width: `${Math.min(100, (100 * running) / Math.max(1, capacity))}%` }}
        />
      </span>
      <span className="number small soft" aria-hidden="true">
        {label}
      </span>
    </span>
  )
}

const Names = ({ names, all, none }: { names: readonly string[] | null; all: string; none: string }): ReactElement => {
  if (names === null || names.length === 0) return <span className="faint">{none}</span>
  if (names.includes("*")) return <span className="soft">{all}</span>
  return (
    <span className="row">
      {names.map((name) => (
        <Tag key={name}>{name}</Tag>
      ))}
    </span>
  )
}
