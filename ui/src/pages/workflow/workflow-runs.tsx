import { useInfiniteQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { runsQuery } from "../../api/queries.ts"
import { Listed } from "../../components/listed.tsx"
import { RunTable } from "../../components/run-table.tsx"
import { Empty } from "../../components/states.tsx"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"

export const WorkflowRuns = ({ name }: { name: string }): ReactElement => {
  const query = useInfiniteQuery(runsQuery({ workflow: name }))
  useListKeys()
  return (
    <Listed query={query} noun="run" empty={<Empty title="It has not run yet" icon="runs" />}>
      {(runs) => <RunTable runs={runs} workflow={false} />}
    </Listed>
  )
}
