// The tasks of a workflow and their dependencies, without a run.

import { type ReactElement, useMemo } from "react"
import type { Workflow } from "../api/types.ts"
import { newState, noCounts } from "../run/state.ts"
import { GraphView } from "./graph-view.tsx"

export const WorkflowGraph = ({ definition }: { definition: Workflow }): ReactElement => {
  const { tasks, name, version } = definition
  const { nodes } = useMemo(
    () =>
      newState({
        run_id: "",
        workflow: name,
        version,
        durable: false,
        tasks: tasks.map((task) => ({
          ...task,
          status: "pending" as const,
          counts: noCounts(),
          started_at: null,
          finished_at: null,
        })),
      }),
    [tasks, name, version],
  )
  return <GraphView key={version} tasks={nodes} label={`Graph of ${name}`} />
}
