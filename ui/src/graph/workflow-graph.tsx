// The tasks of a workflow and what each waits for.

import type { ReactElement } from "react"
import type { Workflow } from "../api/types.ts"

export const WorkflowGraph = ({ definition }: { definition: Workflow }): ReactElement => (
  <table className="table">
    <thead>
      <tr>
        <th scope="col">Task</th>
        <th scope="col">Executor</th>
        <th scope="col">After</th>
        <th scope="col">Runs when</th>
      </tr>
    </thead>
    <tbody>
      {definition.tasks.map((task) => (
        <tr key={task.name}>
          <td className="mono">{task.name}</td>
          <td>{task.executor}</td>
          <td className="mono">{task.depends_on.join(", ")}</td>
          <td>{task.if ?? task.run_when.replaceAll("_", " ")}</td>
        </tr>
      ))}
    </tbody>
  </table>
)
