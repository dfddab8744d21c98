import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { explainQuery } from "../../api/queries.ts"
import { statusOf } from "../../run/status.ts"
import { explanationOf } from "./explanation.ts"
import { useThisRun } from "../../run/use-run.ts"

const ASK_AGAIN_MS = 5000

/** The explanation of a task's or instance's state, as in `ork explain`. */
export const Explained = ({ runId, task, path }: { runId: string; task: string; path: string }): ReactElement | null => {
  const { query, state } = useThisRun()
  const node = state?.byName.get(task)
  // Do not show the explanation of an earlier state.
  const status = node?.instances.get(path)?.status ?? (state === null || node === undefined ? undefined : statusOf(state, node))
  const stateKey = [query.data?.status, query.data?.paused, status]
  const asked = useQuery({
    ...explainQuery(runId, task, stateKey.join(" ")),
    refetchInterval: query.data?.finished_at === null ? ASK_AGAIN_MS : false,
  })
  const items = asked.data?.items ?? []
  const said = explanationOf(items, { task, path, status })
  return said === undefined ? null : <p className="explained">{said.sentence}</p>
}
