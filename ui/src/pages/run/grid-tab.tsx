import type { ReactElement } from "react"
import { StatusBadge } from "../../components/badge.tsx"
import { statusOf } from "../../run/status.ts"
import { useThisRun } from "../../run/use-run.ts"
import { useSelection } from "./selection.ts"

export const GridTab = (): ReactElement => {
  const { state } = useThisRun()
  const { open } = useSelection()
  return (
    <ul className="card card-body">
      {state!.nodes.map((node) => (
        <li key={node.name}>
          <button type="button" onClick={() => open(node.name)}>
            {node.name}
          </button>{" "}
          <StatusBadge status={statusOf(state!, node)} />
        </li>
      ))}
    </ul>
  )
}
