// The logs of a run: one at a time, selected by task, instance and attempt in the address.

import { getRouteApi } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { StatusBadge } from "../../components/badge.tsx"
import { Empty, Loading } from "../../components/states.tsx"
import { plural } from "../../format/time.ts"
import { type Instance, instanceName, type RunState } from "../../run/state.ts"
import { useThisRun } from "../../run/use-run.ts"
import { ChosenLog } from "./chosen-log.tsx"
import { chooseLog, type LogChoice, sortedPaths } from "./log-choice.ts"
import { Picker } from "./picker.tsx"

const route = getRouteApi("/shell/runs/$runId")

export const LogsTab = (): ReactElement => {
  const { state } = useThisRun()
  const search = route.useSearch()
  if (state === null || !state.complete) return <Loading what="Loading the tasks" />
  const choice = chooseLog(state, search)
  if (choice === null) return <Empty title="This run has no tasks" />
  return (
    <div className="stack">
      <Pickers state={state} choice={choice} />
      <ChosenLog runId={state.runId} choice={choice} />
    </div>
  )
}

const instanceChoice = (instance: Instance): string => `${instanceName("", instance)} · ${instance.status}`

const Pickers = ({ state, choice: { node, instance, attempt } }: { state: RunState; choice: LogChoice }): ReactElement => {
  const navigate = route.useNavigate()
  const choose = (next: { task: string; path?: string; attempt?: string }): void => {
    void navigate({
      search: ({ task: _task, path: _path, attempt: _attempt, ...rest }) => ({ ...rest, ...next }),
      replace: true,
      resetScroll: false,
    })
  }
  const paths = sortedPaths(node)
  const past = instance === null ? [] : instance.past
  const latest = instance?.attempt ?? 0
  const stateOf = (number: number): string =>
    past.find((each) => each.attempt === number)?.status ?? (number === latest ? (instance?.status ?? "") : "")
  return (
    <div className="filters">
      <Picker
        label="Task"
        value={node.name}
        choices={state.nodes.filter((each) => !each.isGroup).map((each) => ({ value: each.name, text: each.name }))}
        onChange={(task) => choose({ task })}
      />
      {paths.length > 1 || node.fanOut !== null ? (
        <Picker
          label={`Instance (${plural(paths.length, "instance")})`}
          value={instance?.path ?? ""}
          choices={paths.map((path) => ({ value: path, text: instanceChoice(node.instances.get(path)!) }))}
          onChange={(path) => choose({ task: node.name, path })}
        />
      ) : null}
      {latest > 1 ? (
        <Picker
          label="Attempt"
          value={String(attempt)}
          choices={Array.from({ length: latest }, (_, i) => ({
            value: String(i + 1),
            text: `${i + 1} · ${stateOf(i + 1)}`,
          }))}
          onChange={(wanted) => choose({ task: node.name, ...(instance !== null && { path: instance.path }), attempt: wanted })}
        />
      ) : null}
      {instance === null ? null : (
        <span className="log-status">
          <StatusBadge status={instance.status} />
        </span>
      )}
    </div>
  )
}
