// The runs page: live, newest first, filters in the address, bulk cancel and retry.

import { useInfiniteQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { type ReactElement, useState } from "react"
import { runsQuery, workflowsQuery } from "../../api/queries.ts"
import { buttonClass } from "../../components/button.tsx"
import { SelectFilter } from "../../components/field.tsx"
import { itemsOf, Listed } from "../../components/listed.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { RunTable, type Selection } from "../../components/run-table.tsx"
import { SearchBox } from "../../components/search-box.tsx"
import { Empty } from "../../components/states.tsx"
import { StatusFilter } from "../../components/status-filter.tsx"
import { TimeRange } from "../../components/time-range.tsx"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"
import { useMayForSome } from "../../session/session.ts"
import { RUN_STATUSES, runsSearch, TRIGGERS } from "../search.ts"
import { BulkBar } from "./bulk-bar.tsx"

const route = getRouteApi("/shell/runs")

export const RunsPage = (): ReactElement => {
  const filter = route.useSearch()
  const { after, before, ...rest } = filter
  const query = useInfiniteQuery(runsQuery({ ...rest, created_after: after, created_before: before }))
  const runs = itemsOf(query.data)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const mayAct = useMayForSome("trigger")
  useListKeys()

  const selection: Selection = {
    ids: chosen,
    set: (id, selected) =>
      setChosen((old) => (selected ? new Set([...old, id]) : new Set([...old].filter((each) => each !== id)))),
    setAll: (selected) => setChosen(new Set(selected ? runs.map((run) => run.id) : [])),
  }
  const filtered = Object.keys(filter).length > 0
  return (
    <div className="page">
      <PageHead title="Runs" />
      <RunFilters />
      <BulkBar runs={runs.filter((run) => chosen.has(run.id))} onDone={() => setChosen(new Set())} />
      <Listed
        query={query}
        noun="run"
        empty={
          filtered ? (
            <Empty title="No run matches these filters" icon="search">
              <p>Enter the full name of the workflow.</p>
              <Link to="/runs" className={buttonClass()}>
                Show all runs
              </Link>
            </Empty>
          ) : (
            <Empty title="Nothing has run yet" icon="runs">
              <Link to="/workflows" className={buttonClass()}>
                Choose a workflow to run
              </Link>
            </Empty>
          )
        }
      >
        {(items) => <RunTable runs={items} {...(mayAct && { selection })} />}
      </Listed>
    </div>
  )
}

const RunFilters = (): ReactElement => {
  const filter = route.useSearch()
  const navigate = route.useNavigate()
  const names = itemsOf(useInfiniteQuery(workflowsQuery({})).data).map((workflow) => workflow.name)
  const set = (change: Parameters<typeof runsSearch>[0]): void =>
    void navigate({ search: (old) => runsSearch({ ...old, ...change }), replace: true })
  return (
    <div className="filters">
      <SearchBox label="Workflow" value={filter.workflow} choices={names} onChange={(workflow) => set({ workflow })} />
      <StatusFilter value={filter.status} statuses={RUN_STATUSES} onChange={(status) => set({ status })} />
      <SelectFilter
        label="Trigger"
        value={filter.trigger}
        all="Any trigger"
        choices={TRIGGERS.map((trigger) => ({ value: trigger, text: trigger }))}
        onChange={(trigger) => set({ trigger })}
      />
      <TimeRange after={filter.after} before={filter.before} onChange={set} />
    </div>
  )
}
