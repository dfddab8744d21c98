// One task of a run, or one of its instances.

import type { ReactElement } from "react"
import { StatusBadge } from "../../components/badge.tsx"
import { statusOf } from "../../run/status.ts"
import type { RunState } from "../../run/state.ts"

export interface TaskPanelProps {
  runId: string
  state: RunState
  name: string
  /** Empty: the task as a whole. */
  path: string
}

export const TaskPanel = ({ state, name, path }: TaskPanelProps): ReactElement => {
  const node = state.byName.get(name)!
  const instance = node.instances.get(path)
  return (
    <div className="card-body">
      <StatusBadge status={instance?.status ?? statusOf(state, node)} />
    </div>
  )
}
