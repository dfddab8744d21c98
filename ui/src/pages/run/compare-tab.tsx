// Compares this run with another run of the workflow: params, definition, durations and outputs.

import { useQuery, useInfiniteQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { graphQuery, runQuery, runsQuery } from "../../api/queries.ts"
import type { Run } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Facts } from "../../components/facts.tsx"
import { itemsOf } from "../../components/listed.tsx"
import { runName } from "../../components/run-table.tsx"
import { Empty, Loaded, Loading, ProblemState } from "../../components/states.tsx"
import { absoluteTime, durationText } from "../../format/time.ts"
import { useThisRun } from "../../run/use-run.ts"
import { compareRuns, type Comparison, durationOfRun, usualOther } from "./compare/compare.ts"
import { DefinitionDiff, ParamTable } from "./compare/compare-facts.tsx"
import { TaskTable } from "./compare/task-table.tsx"
import { Picker } from "./picker.tsx"
import "../../styles/compare.css"

const route = getRouteApi("/shell/runs/$runId")

export const CompareTab = (): ReactElement => {
  const { query } = useThisRun()
  const { with: wanted } = route.useSearch()
  const run = query.data!
  const list = useInfiniteQuery(runsQuery({ workflow: run.workflow }))
  const named = useQuery({ ...runQuery(wanted ?? ""), enabled: wanted !== undefined })
  if (list.data === undefined) return list.isError ? <ProblemState error={list.error} /> : <Loading what="Loading the runs" />
  if (wanted !== undefined && named.isError) return <ProblemState error={named.error} />
  const others = itemsOf(list.data)
  const other = wanted === undefined ? usualOther(run, others) : (named.data ?? null)
  if (other === null) {
    return (
      <div className="card">
        <Empty title={wanted === undefined ? "There is no other run of this workflow yet" : "Loading the other run…"} />
      </div>
    )
  }
  return (
    <div className="stack">
      <OtherPicker run={run} other={other} others={others} />
      <Beside key={other.id} run={run} other={other} />
    </div>
  )
}

const OtherPicker = ({ run, other, others }: { run: Run; other: Run; others: readonly Run[] }): ReactElement => {
  const navigate = route.useNavigate()
  const listed = others.some((each) => each.id === other.id) ? others : [other, ...others]
  return (
    <div className="filters">
      <Picker
        label="Compare with"
        value={other.id}
        choices={listed
          .filter((each) => each.id !== run.id)
          .map((each) => ({
            value: each.id,
            text: `#${each.number} · ${each.status} · ${absoluteTime(Date.parse(each.created_at)).slice(0, 16)}`,
          }))}
        onChange={(id) => void navigate({ search: (old) => ({ ...old, with: id }), replace: true, resetScroll: false })}
      />
    </div>
  )
}

const REFETCH_MS = 5000

const Beside = ({ run, other }: { run: Run; other: Run }): ReactElement => {
  const live = [run, other].some((each) => each.finished_at === null)
  const mine = useQuery({ ...graphQuery(run.id), refetchInterval: live ? REFETCH_MS : false })
  const theirs = useQuery({ ...graphQuery(other.id), refetchInterval: live ? REFETCH_MS : false })
  return (
    <Loaded query={mine} what="Loading this run's tasks">
      {(graph) => (
        <Loaded query={theirs} what="Loading the other run's tasks">
          {(otherGraph) => {
            const compared = compareRuns({ run, graph }, { run: other, graph: otherGraph })
            return (
              <>
                <div className="compare-heads">
                  <RunHead title="This run" run={run} />
                  <RunHead title="The other run" run={other} />
                </div>
                <ComparisonSummary compared={compared} />
                <TaskTable compared={compared} here={run.id} there={other.id} />
                <div className="columns">
                  <ParamTable rows={compared.params} />
                  <DefinitionDiff run={run} other={other} />
                </div>
              </>
            )
          }}
        </Loaded>
      )}
    </Loaded>
  )
}

const RunHead = ({ title, run }: { title: string; run: Run }): ReactElement => {
  const ms = durationOfRun(run)
  return (
    <section className="card card-body" aria-label={title}>
      <div className="row">
        <h2>{title}</h2>
        <Link to="/runs/$runId" params={{ runId: run.id }} className="mono">
          {runName(run)}
        </Link>
        <StatusBadge status={run.status} />
      </div>
      <Facts
        facts={[
          ["Created", absoluteTime(Date.parse(run.created_at)).slice(0, 19)],
          ["Duration", ms === null ? "–" : durationText(ms)],
          ["Version", run.version],
          ["Trigger", run.trigger],
        ]}
      />
    </section>
  )
}

const ComparisonSummary = ({ compared: { here, there, tasks } }: { compared: Comparison }): ReactElement | null => {
  if (here === null || there === null) return null
  const [worst] = tasks
  const difference = here - there
  const text =
    difference === 0 ? "as long as" : `${durationText(Math.abs(difference))} ${difference > 0 ? "longer" : "less"} than`
  return (
    <p>
      This run took {text} the other.
      {worst !== undefined && worst.slower !== null && worst.slower > 0
        ? ` What got slower most: ${worst.name}, by ${durationText(worst.slower)}.`
        : " No task got slower."}
    </p>
  )
}
