// The page of one workflow: graph, runs, versions, schedules.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { lazy, type ReactElement, Suspense } from "react"
import { code } from "../../code.ts"
import { runsQuery, workflowQuery } from "../../api/queries.ts"
import type { Workflow } from "../../api/types.ts"
import { StatusBadge, Tag } from "../../components/badge.tsx"
import { buttonClass } from "../../components/button.tsx"
import { Code } from "../../components/code.tsx"
import { Icon } from "../../components/icon.tsx"
import { Changes } from "../../components/changes.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Empty, Loaded, Loading } from "../../components/states.tsx"
import { TabNav } from "../../components/tab-nav.tsx"
import { Time } from "../../components/time.tsx"
import { useMayFor } from "../../session/session.ts"
import type { WORKFLOW_TABS } from "../search.ts"
import { PauseSwitch } from "../workflows/pause-switch.tsx"
import { readable } from "./diff.ts"
import { ParamTable } from "./param-table.tsx"
import { RemoveWorkflow } from "./remove-workflow.tsx"
import { WorkflowSchedules } from "./workflow-schedules.tsx"
import { Versions } from "./versions.tsx"
import { Listed } from "../../components/listed.tsx"
import { RunTable } from "../../components/run-table.tsx"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"

const Graph = lazy(async () => ({ default: (await code(() => import("../../graph/workflow-graph.tsx"))()).WorkflowGraph }))

const route = getRouteApi("/shell/workflows/$name")

export const WorkflowPage = (): ReactElement => {
  const { name } = route.useParams()
  const query = useQuery(workflowQuery(name))
  return (
    <div className="page">
      <Loaded query={query} what="Loading the workflow">
        {(workflow) => <WorkflowDetails workflow={workflow} />}
      </Loaded>
    </div>
  )
}

const WorkflowDetails = ({ workflow }: { workflow: Workflow }): ReactElement => {
  const { tab = "graph" } = route.useSearch()
  const mayRun = useMayFor(workflow.name, "trigger")
  const { name, params, schedules, triggers, version, tags, description } = workflow
  return (
    <>
      <PageHead
        title={name}
        up={{ to: "/workflows", text: "Workflows" }}
        beside={
          <>
            {workflow.paused ? <StatusBadge status="paused" /> : null}
            {tags.map((tag) => (
              <Tag key={tag}>{tag}</Tag>
            ))}
          </>
        }
        actions={
          <>
            {schedules.length + triggers.length === 0 ? null : (
              <span className="row soft small">
                Schedule
                <PauseSwitch workflow={workflow} />
              </span>
            )}
            <RemoveWorkflow name={name} />
            {mayRun ? (
              <Link to="/workflows/$name/run" params={{ name }} className={buttonClass("primary")}>
                <Icon name="play" />
                Run
              </Link>
            ) : null}
          </>
        }
      >
        {description === null ? null : <p className="soft">{description}</p>}
        <p className="soft small">
          Version {version}, deployed <Time at={workflow.updated_at} />
        </p>
        <Changes path={`/workflows/${name}`} state={`${version} ${workflow.updated_at} ${workflow.paused}`} />
      </PageHead>
      <TabNav
        label="Views of the workflow"
        current={tab}
        tabs={[
          { id: "graph", text: "Graph" },
          { id: "runs", text: "Runs" },
          { id: "versions", text: "Versions", count: version },
          { id: "schedules", text: "Schedules", count: schedules.length + triggers.length },
          { id: "params", text: "Params", count: params.length },
          { id: "source", text: "Source" },
        ]}
      />
      <View workflow={workflow} tab={tab} />
    </>
  )
}

const View = ({ workflow, tab }: { workflow: Workflow; tab: (typeof WORKFLOW_TABS)[number] }): ReactElement => {
  switch (tab) {
    case "graph":
      return (
        <section className="card" aria-label="Graph">
          <Suspense fallback={<Loading what="Loading the graph" />}>
            <Graph definition={workflow} />
          </Suspense>
        </section>
      )
    case "runs":
      return <WorkflowRuns name={workflow.name} />
    case "versions":
      return <Versions name={workflow.name} />
    case "schedules":
      return <WorkflowSchedules workflow={workflow} />
    case "params":
      return <ParamTable params={workflow.params} />
    case "source":
      return <Code text={readable(workflow.definition)} label={`Source of ${workflow.name}`} numbers />
    default:
      return tab satisfies never
  }
}

const WorkflowRuns = ({ name }: { name: string }): ReactElement => {
  const query = useInfiniteQuery(runsQuery({ workflow: name }))
  useListKeys()
  return (
    <Listed query={query} noun="run" empty={<Empty title="It has not run yet" icon="runs" />}>
      {(runs) => <RunTable runs={runs} workflow={false} />}
    </Listed>
  )
}
