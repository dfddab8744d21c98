// The workflows page: last runs, next tick, and the actions run and pause.

import { useInfiniteQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { workflowsQuery } from "../../api/queries.ts"
import type { WorkflowSummary } from "../../api/types.ts"
import { StatusBadge, Tag } from "../../components/badge.tsx"
import { buttonClass } from "../../components/button.tsx"
import { SelectFilter } from "../../components/field.tsx"
import { Icon } from "../../components/icon.tsx"
import { itemsOf, Listed } from "../../components/listed.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { RunTicks } from "../../components/run-ticks.tsx"
import { SearchBox } from "../../components/search-box.tsx"
import { Empty } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"
import { percentText } from "../../format/count.ts"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"
import { useMayFor } from "../../session/session.ts"
import { PauseSwitch } from "./pause-switch.tsx"
import { successRate } from "./ticks.ts"
import { Table } from "../../components/table.tsx"

const COLUMNS = [
  "Workflow",
  "Last runs",
  { text: "Success", className: "end roomy" },
  "Latest",
  { text: "Next tick", className: "wide" },
  { text: "Schedule", className: "wide" },
  { hidden: "Actions" },
]

const route = getRouteApi("/shell/workflows")

export const WorkflowsPage = (): ReactElement => {
  const filter = route.useSearch()
  const navigate = route.useNavigate()
  const query = useInfiniteQuery(workflowsQuery(filter))
  const items = itemsOf(query.data)
  const tags = [
    ...new Set([...items.flatMap((each) => each.tags), ...(filter.tag === undefined ? [] : [filter.tag])]),
  ].toSorted()
  const filtered = filter.search !== undefined || filter.tag !== undefined
  useListKeys()
  return (
    <div className="page">
      <PageHead title="Workflows" />
      <div className="filters">
        <SearchBox
          label="Search workflows"
          value={filter.search}
          onChange={(search) => void navigate({ search: (old) => ({ ...old, search }), replace: true })}
        />
        <SelectFilter
          label="Tag"
          value={filter.tag}
          all="All tags"
          choices={tags.map((tag) => ({ value: tag, text: tag }))}
          onChange={(tag) => void navigate({ search: (old) => ({ ...old, tag }) })}
        />
      </div>
      <Listed
        query={query}
        noun="workflow"
        empty={
          filtered ? (
            <Empty title="No workflow matches this search" icon="search">
              <Link to="/workflows" className={buttonClass()}>
                Show all workflows
              </Link>
            </Empty>
          ) : (
            <Empty title="No workflow is deployed yet" icon="workflows">
              <p>
                Write one and send it with <code>ork deploy FILE</code>, or start the server with <code>--dir FOLDER</code>.{" "}
                <code>ork init</code> makes a first one.
              </p>
            </Empty>
          )
        }
      >
        {(workflows) => <WorkflowTable workflows={workflows} />}
      </Listed>
    </div>
  )
}

const WorkflowTable = ({ workflows }: { workflows: readonly WorkflowSummary[] }): ReactElement => (
  <Table columns={COLUMNS}>
    {workflows.map((workflow) => (
      <WorkflowRow key={workflow.name} workflow={workflow} />
    ))}
  </Table>
)

/** The next tick, or the workflows that it follows and the files that it takes. */
const Starts = ({ nextAt, triggers }: { nextAt: string | null; triggers: WorkflowSummary["triggers"] }): ReactElement =>
  nextAt === null && triggers.length > 0 ? (
    <span className="soft">
      {triggers.map(({ after, path }) => (after === null ? (path ?? "") : `after ${after.join(", ")}`)).join("; ")}
    </span>
  ) : (
    <Time at={nextAt} none="none" />
  )

const WorkflowRow = ({ workflow }: { workflow: WorkflowSummary }): ReactElement => {
  const mayRun = useMayFor(workflow.name, "trigger")
  const { name, description, tags, last_runs: runs, next_at: nextAt, paused, triggers } = workflow
  const rate = successRate(runs)
  const [latest] = runs
  return (
    <tr data-row="">
      <td>
        <div className="row">
          <Link to="/workflows/$name" params={{ name }} className="row-link">
            {name}
          </Link>
          {tags.map((tag) => (
            <Tag key={tag}>{tag}</Tag>
          ))}
        </div>
        {description === null ? null : <div className="soft small">{description}</div>}
      </td>
      <td className="fit">
        <RunTicks runs={runs} />
      </td>
      <td className="fit end number roomy">
        <span title={`${rate.success} of ${rate.ended} runs that ended`}>{percentText(rate.success, rate.ended)}</span>
      </td>
      <td className="fit">
        {latest === undefined ? (
          <span className="faint">never ran</span>
        ) : (
          <span className="latest">
            <StatusBadge status={latest.status} />
            <span className="soft small">
              <Time at={latest.created_at} />
            </span>
          </span>
        )}
      </td>
      <td className="fit wide">{paused ? <StatusBadge status="paused" /> : <Starts nextAt={nextAt} triggers={triggers} />}</td>
      <td className="fit wide">
        <PauseSwitch workflow={workflow} />
      </td>
      <td className="fit end">
        {mayRun ? (
          <Link to="/workflows/$name/run" params={{ name }} className={buttonClass()} aria-label={`Run ${name}`}>
            <Icon name="play" />
            Run
          </Link>
        ) : null}
      </td>
    </tr>
  )
}
