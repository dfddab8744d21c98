// The page of one run: status, views, and the opened task next to them.

import { getRouteApi, Link, Navigate } from "@tanstack/react-router"
import { Fragment, lazy, type ReactElement, Suspense } from "react"
import { code } from "../../code.ts"
import type { Run } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { JsonView } from "../../components/code.tsx"
import { Changes } from "../../components/changes.tsx"
import { Facts } from "../../components/facts.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Progress, runName, shortId } from "../../components/run-table.tsx"
import { Loaded, Loading, ProblemState } from "../../components/states.tsx"
import { TabNav } from "../../components/tab-nav.tsx"
import { RunDuration, Time } from "../../components/time.tsx"
import { runCounts, type RunState } from "../../run/state.ts"
import { type LiveRun, RunContext, useRun } from "../../run/use-run.ts"
import type { RUN_TABS } from "../search.ts"
import { FailureCard } from "./failure-card.tsx"
import { RunActions } from "./run-actions.tsx"
import { RunExplanations } from "./run-explanations.tsx"
import { TaskSide } from "./task-side.tsx"
import "../../styles/run.css"

const route = getRouteApi("/shell/runs/$runId")

type Tab = (typeof RUN_TABS)[number]

const VIEWS = {
  steps: lazy(async () => ({ default: (await code(() => import("./steps-tab.tsx"))()).StepsTab })),
  graph: lazy(async () => ({ default: (await code(() => import("./graph-tab.tsx"))()).GraphTab })),
  timeline: lazy(async () => ({ default: (await code(() => import("./timeline-tab.tsx"))()).TimelineTab })),
  grid: lazy(async () => ({ default: (await code(() => import("./grid-tab.tsx"))()).GridTab })),
  logs: lazy(async () => ({ default: (await code(() => import("./logs-tab.tsx"))()).LogsTab })),
  compare: lazy(async () => ({ default: (await code(() => import("./compare-tab.tsx"))()).CompareTab })),
} as const satisfies Record<Tab, unknown>

export const RunPage = (): ReactElement => {
  const { runId } = route.useParams()
  // Reset all state when another run is opened.
  return <OneRun key={runId} runId={runId} />
}

const OneRun = ({ runId }: { runId: string }): ReactElement => {
  const search = route.useSearch()
  const live = useRun(runId)
  return (
    <RunContext value={live}>
      <div className="page run-page">
        <Loaded query={live.query} what="Loading the run">
          {(run) =>
            run.id === runId ? (
              <RunDetails run={run} live={live} />
            ) : (
              // The address names the run by its number. Events name it by its id.
              <Navigate to="/runs/$runId" params={{ runId: run.id }} search={search} replace />
            )
          }
        </Loaded>
      </div>
    </RunContext>
  )
}

const RunDetails = ({ run, live: { state, error, reload } }: { run: Run; live: LiveRun }): ReactElement => {
  const durable = state?.durable === true
  const { tab = durable ? "steps" : "graph" } = route.useSearch()
  const View = VIEWS[tab]
  return (
    <>
      <Head run={run} state={state} />
      <TabNav
        label="Views of the run"
        current={tab}
        tabs={[
          ...(durable ? [{ id: "steps", text: "Steps" } as const] : []),
          { id: "graph", text: "Graph" },
          { id: "timeline", text: "Timeline" },
          { id: "grid", text: "Grid" },
          { id: "logs", text: "Logs" },
          { id: "compare", text: "Compare" },
        ]}
      />
      {state === null ? (
        error === null ? (
          <Loading what="Loading the tasks" />
        ) : (
          <ProblemState error={error} retry={reload} />
        )
      ) : (
        <div className="run-body">
          <div className="run-view">
            <Suspense fallback={<Loading what="Loading the view" />}>
              <View />
            </Suspense>
          </div>
          {tab === "logs" || tab === "compare" ? null : <TaskSide runId={run.id} state={state} />}
        </div>
      )}
    </>
  )
}

const Head = ({ run, state }: { run: Run; state: RunState | null }): ReactElement => (
  <>
    <PageHead
      title={runName(run)}
      up={{ to: "/runs", text: "Runs" }}
      beside={
        <>
          <span className="mono faint" title={run.id}>
            {shortId(run.id)}
          </span>
          <StatusBadge status={run.paused ? "paused" : run.status} />
          <Progress tasks={state === null ? run.tasks : runCounts(state)} />
        </>
      }
      actions={<RunActions run={run} />}
    >
      {run.error === null || run.status === "failed" ? null : <p className="error-line">{run.error}</p>}
      <RunExplanations run={run} />
    </PageHead>
    <Facts
      facts={[
        [
          "Workflow",
          <Link key="workflow" to="/workflows/$name" params={{ name: run.workflow }}>
            {run.workflow}
          </Link>,
        ],
        ["Version", String(run.version)],
        ["Trigger", run.trigger],
        ["Started by", <Starter key="starter" run={run} />],
        run.logical_date === null ? null : ["Logical date", <Time key="logical" at={run.logical_date} />],
        ["Created", <Time key="created" at={run.created_at} />],
        ["Duration", <RunDuration key="duration" run={run} />],
        ...Object.entries(run.params).map(([name, value]) => [`params.${name}`, <Param key={name} value={value} />] as const),
      ]}
    />
    <Changes path={`/runs/${run.id}`} state={`${run.status} ${run.paused} ${run.finished_at ?? ""} ${run.tasks.success}`} />
    <FailureCard run={run} state={state} />
  </>
)

const STARTERS: Readonly<Record<string, string>> = {
  schedule: "its schedule",
  webhook: "a webhook",
  manual: "the command line",
}

const Starter = ({ run: { parent, cause, created_by, trigger } }: { run: Run }): ReactElement => {
  if (parent !== null)
    return (
      <Link to="/runs/$runId" params={{ runId: parent.run_id }} search={{ task: parent.task }}>
        task {parent.task}
      </Link>
    )
  return cause === null ? <>{created_by ?? STARTERS[trigger] ?? trigger}</> : <Cause cause={cause} />
}

/** The file of the run, or links to the runs that it followed. */
const Cause = ({ cause }: { cause: NonNullable<Run["cause"]> }): ReactElement => {
  if ("path" in cause) return <code>{cause.path}</code>
  return (
    <>
      the success of{" "}
      {cause.runs.map(({ id, workflow }, i) => (
        <Fragment key={id}>
          {i === 0 ? "" : ", "}
          <Link to="/runs/$runId" params={{ runId: id }}>
            {workflow}
          </Link>
        </Fragment>
      ))}
    </>
  )
}

const LONG = 80

const Param = ({ value }: { value: unknown }): ReactElement => {
  const text = typeof value === "string" ? value : JSON.stringify(value)
  if (text.length <= LONG) return <code>{text}</code>
  return (
    <details>
      <summary className="mono small">{text.slice(0, LONG)}…</summary>
      <JsonView value={value} label="Value of the param" />
    </details>
  )
}
