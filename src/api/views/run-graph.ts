// The graph of a run's own workflow version, with the status of each task.

import type { z } from "zod"
import type { runGraph as schema } from "../../protocol/api/run-views.ts"
import type { RunViewStore } from "../../store/contract/run-view.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"
import { nodeSummary } from "./node-status.ts"
import { graphTasks } from "./service-json.ts"

export const runGraph = async (
  store: Pick<Store, "getVersion"> & Pick<RunViewStore, "countRows">,
  run: RunRow,
): Promise<z.output<typeof schema>> => {
  const compiled = await store.getVersion(run.versionId)
  const rows = Map.groupBy(await store.countRows(run.id), ({ node }) => node)
  const tasks = graphTasks(compiled).map((task, i) => {
    const { status, counts, startedAt, finishedAt } = nodeSummary(compiled.nodes[i]!, rows.get(i) ?? [])
    return { ...task, status, counts, started_at: startedAt, finished_at: finishedAt }
  })
  const durable = compiled.nodes[0]?.durable === true
  return { run_id: run.id, workflow: run.workflow, version: run.version, durable, tasks }
}
