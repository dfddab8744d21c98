// One run: what it is, how far it is, and its views.

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { runQuery } from "../../api/queries.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { buttonClass } from "../../components/button.tsx"
import { JsonView } from "../../components/code.tsx"
import { Facts } from "../../components/facts.tsx"
import { Icon } from "../../components/icon.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Loaded } from "../../components/states.tsx"
import { Duration, Time } from "../../components/time.tsx"
import { useMay } from "../../session/session.ts"

const route = getRouteApi("/shell/runs/$runId")

export const RunPage = (): ReactElement => {
  const { runId } = route.useParams()
  const query = useQuery(runQuery(runId))
  const mayRun = useMay("trigger")
  return (
    <div className="page">
      <Loaded query={query} what="Loading the run">
        {(run) => (
          <>
            <PageHead
              title={`Run ${run.id.slice(-8)}`}
              up={{ to: "/runs", text: "Runs" }}
              beside={<StatusBadge status={run.paused ? "paused" : run.status} />}
              actions={
                mayRun ? (
                  <Link
                    to="/workflows/$name/run"
                    params={{ name: run.workflow }}
                    search={{ from: run.id }}
                    className={buttonClass()}
                  >
                    <Icon name="play" />
                    Run again with these params
                  </Link>
                ) : undefined
              }
            />
            <Facts
              facts={[
                [
                  "Workflow",
                  <Link key="workflow" to="/workflows/$name" params={{ name: run.workflow }}>
                    {run.workflow}
                  </Link>,
                ],
                ["Trigger", run.trigger],
                ["Created", <Time key="created" at={run.created_at} />],
                ["Duration", <Duration key="duration" from={run.started_at} to={run.finished_at} />],
                run.error === null ? null : ["Error", run.error],
              ]}
            />
            <JsonView value={run.params} label="Params" />
          </>
        )}
      </Loaded>
    </div>
  )
}
