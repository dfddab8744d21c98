// One task of a run: the whole task with its instances, or the details of one instance.

import type { ReactElement } from "react"
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { taskQuery } from "../../api/queries.ts"
import type { Task } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Button } from "../../components/button.tsx"
import { ProblemState } from "../../components/states.tsx"
import { ExactTime } from "../../components/time.tsx"
import type { Instance, RunNode, RunState } from "../../run/state.ts"
import { statusOf } from "../../run/status.ts"
import { ChosenLog } from "./chosen-log.tsx"
import { Explained } from "./explained.tsx"
import { chooseLog } from "./log-choice.ts"
import { useSelection } from "./selection.ts"
import { ApprovalBox, TaskActions } from "./task-panel-actions.tsx"
import { TaskDetails } from "./task-panel-details.tsx"
import { Instances } from "./task-panel-instances.tsx"
import "../../styles/task-panel.css"

export interface TaskPanelProps {
  runId: string
  state: RunState
  name: string
  /** Empty for the whole task. */
  path: string
}

export const TaskPanel = ({ runId, state, name, path }: TaskPanelProps): ReactElement => {
  const node = state.byName.get(name)!
  if (node.isGroup) return <Group runId={runId} state={state} node={node} />
  const whole = path === "" && (node.fanOut !== null || node.around > 0)
  if (whole) return <TaskOverview runId={runId} state={state} node={node} />
  return <InstancePanel key={path} runId={runId} state={state} node={node} path={path} />
}

const Group = ({ runId, state, node }: { runId: string; state: RunState; node: RunNode }): ReactElement => {
  const { open } = useSelection()
  return (
    <div className="task-panel">
      <TaskHeader runId={runId} node={node} path="" status={statusOf(state, node)} />
      <TaskActions at={{ runId, name: node.name, path: "" }} task={null} fanned={false} />
      <h3>Tasks in it</h3>
      <ul className="bulk-list">
        {node.members.map((index) => {
          const member = state.nodes[index]!
          return (
            <li key={member.name}>
              <button type="button" className="link" onClick={() => open(member.name)}>
                {member.short}
              </button>
              <StatusBadge status={statusOf(state, member)} />
            </li>
          )
        })}
      </ul>
    </div>
  )
}

const TaskOverview = ({ runId, state, node }: { runId: string; state: RunState; node: RunNode }): ReactElement => (
  <div className="task-panel">
    <TaskHeader runId={runId} node={node} path="" status={statusOf(state, node)} />
    <TaskActions at={{ runId, name: node.name, path: "" }} task={null} fanned />
    <Instances node={node} complete={state.complete} />
  </div>
)

const TaskHeader = ({
  runId,
  node,
  path,
  status,
  explained = true,
}: {
  runId: string
  node: RunNode
  path: string
  status: Instance["status"]
  explained?: boolean
}): ReactElement => (
  <div className="task-standing">
    <StatusBadge status={status} />
    {status === "success" || !explained ? null : <Explained runId={runId} task={node.name} path={path} />}
  </div>
)

const LIVE_MS = 2000

const InstancePanel = ({
  runId,
  state,
  node,
  path,
}: {
  runId: string
  state: RunState
  node: RunNode
  path: string
}): ReactElement => {
  const { open } = useSelection()
  const instance = node.instances.get(path)
  const status = instance?.status ?? statusOf(state, node)
  const live = status === "running" || status === "dispatched"
  const stateKey = `${status} ${instance?.attempt ?? 0} ${instance?.waiting === true}`
  const query = useQuery({
    ...taskQuery(runId, node.name, path, stateKey),
    placeholderData: (last) => last,
    refetchInterval: live ? LIVE_MS : false,
  })
  const at = { runId, name: node.name, path }
  const waiting = query.data?.waiting ?? null
  return (
    <div className="task-panel">
      {path === "" ? null : (
        <div>
          <Button kind="quiet" onClick={() => open(node.name)}>
            ← All instances
          </Button>
        </div>
      )}
      <TaskHeader
        runId={runId}
        node={node}
        path={path}
        status={status}
        explained={waiting?.kind !== "approval" && waiting?.kind !== "condition"}
      />
      {waiting?.kind === "approval" ? <ApprovalBox at={at} waiting={waiting} /> : null}
      {waiting?.kind === "condition" ? <WaitsForCondition waiting={waiting} /> : null}
      {waiting !== null && waiting.kind !== "approval" && waiting.kind !== "condition" ? <Waits waiting={waiting} /> : null}
      <TaskActions at={at} task={query.data ?? null} fanned={path !== ""} />
      {query.data === undefined ? (
        query.isError && instance !== undefined ? (
          <ProblemState error={query.error} retry={() => void query.refetch()} />
        ) : null
      ) : (
        <TaskDetails task={query.data} log={<InstanceLog runId={runId} state={state} task={node.name} path={path} />} />
      )}
    </div>
  )
}

const InstanceLog = ({
  runId,
  state,
  task,
  path,
}: {
  runId: string
  state: RunState
  task: string
  path: string
}): ReactElement | null => {
  const choice = chooseLog(state, { task, path })
  if (choice === null || choice.attempt === 0) return null
  return (
    <section className="stack" aria-label="Log">
      <div className="row">
        <h3>Log</h3>
        <Link
          to="."
          search={(search) => ({ ...search, tab: "logs" as const, task, ...(path !== "" && { path }) })}
          className="small"
        >
          Open in full
        </Link>
      </div>
      <ChosenLog runId={runId} choice={choice} small />
    </section>
  )
}

const WaitsForCondition = ({ waiting }: { waiting: NonNullable<Task["waiting"]> }): ReactElement => (
  <p className="task-waits">
    Waits for {waiting.condition}
    {waiting.until === null ? null : (
      <>
        {", next check at "}
        <ExactTime at={waiting.until} />
      </>
    )}
    {waiting.last === undefined ? null : `. The last check: ${waiting.last}`}
  </p>
)

const Waits = ({ waiting }: { waiting: NonNullable<Task["waiting"]> }): ReactElement => (
  <p className="task-waits">
    {waiting.run_id === undefined ? (
      waiting.kind === "sleep" ? (
        "Sleeps"
      ) : (
        `Waits (${waiting.kind}${waiting.url === undefined ? "" : ` ${waiting.url}`})`
      )
    ) : (
      <>
        Waits for the run{" "}
        <Link to="/runs/$runId" params={{ runId: waiting.run_id }}>
          {waiting.run_id.slice(-8)}
        </Link>
      </>
    )}
    {waiting.until === null ? null : (
      <>
        {" until "}
        <ExactTime at={waiting.until} />
      </>
    )}
  </p>
)
