// What the page draws runs from: graph, instances, and the last runs of a workflow side by side.

import type { RunId } from "../../core/model/ids.ts"
import { grid, gridQuery, instanceList, instanceListQuery, runGraph } from "../../protocol/api/run-views.ts"
import { runParams } from "../../protocol/api/runs.ts"
import { workflowParams } from "../../protocol/api/workflows.ts"
import type { RunRow } from "../../store/contract/store.ts"
import { instanceCursor, pageOf, parseInstanceCursor } from "../http/cursors.ts"
import { type GridRun, gridShape } from "../views/grid.ts"
import { nodeSummary } from "../views/node-status.ts"
import type { Api } from "../http/ports.ts"
import { route } from "../http/route.ts"
import { graphTasks } from "../views/shapes.ts"
import { findRun } from "./runs.ts"
import { findWorkflow } from "./workflows.ts"

export const runViewRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/graph",
    tag: "runs",
    summary: "The graph of a run's own version, with how far each task is",
    scope: "read",
    params: runParams,
    responses: { 200: { description: "The graph", schema: runGraph } },
    async handle({ params, api }) {
      const found = await findRun(api, params.id)
      const compiled = await api.store.compiled(found.versionId)
      const rows = Map.groupBy(await api.store.countRows(found.id), ({ node }) => node)
      const tasks = graphTasks(compiled).map((task, i) => {
        const { status, counts, startedAt, finishedAt } = nodeSummary(compiled.nodes[i]!, rows.get(i) ?? [])
        return { ...task, status, counts, started_at: startedAt, finished_at: finishedAt }
      })
      return { status: 200, body: { run_id: found.id, workflow: found.workflow, version: found.version, tasks } }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/instances",
    tag: "runs",
    summary: "Every instance of a run's tasks with its times, in large pages, without input, output and error",
    scope: "read",
    params: runParams,
    query: instanceListQuery,
    responses: { 200: { description: "A page of instances, in the order of the graph's tasks", schema: instanceList } },
    async handle({ params, query: { limit, cursor }, api }) {
      const found = await findRun(api, params.id)
      const { nodes } = await api.store.compiled(found.versionId)
      const rows = await api.store.listInstances({
        runId: found.id,
        limit: limit + 1,
        ...(cursor !== undefined && { after: parseInstanceCursor(cursor) }),
      })
      const body = pageOf(
        rows,
        limit,
        (row) => ({
          name: nodes[row.node]!.name,
          path: row.path,
          status: row.status,
          attempt: row.attempt,
          available_at: row.availableAt,
          waiting: row.waitingOn,
          dispatched_at: row.dispatchedAt,
          started_at: row.startedAt,
          finished_at: row.finishedAt,
          past: row.past.map((past) => ({
            attempt: past.attempt,
            status: past.state,
            dispatched_at: past.dispatchedAt,
            started_at: past.startedAt,
            finished_at: past.finishedAt,
          })),
        }),
        instanceCursor,
      )
      return { status: 200, body }
    },
  }),
  route({
    method: "GET",
    path: "/workflows/{name}/grid",
    tag: "workflows",
    summary: "The last runs of a workflow, with how each of its tasks went",
    scope: "read",
    params: workflowParams,
    query: gridQuery,
    responses: { 200: { description: "Tasks by runs", schema: grid } },
    async handle({ params: { name }, query: { limit, run }, api }) {
      const runs = await runsOf(api, name, limit, run)
      // Its runs stay when a workflow is removed.
      if (runs.length === 0) await findWorkflow(api, name)
      const read: GridRun[] = []
      // One after the other: other requests are answered in between.
      for (const each of runs) {
        const [compiled, rows] = await Promise.all([api.store.compiled(each.versionId), api.store.countRows(each.id)])
        read.push({ run: each, nodes: compiled.nodes, rows })
      }
      return { status: 200, body: gridShape(name, read) }
    },
  }),
]

const runsOf = async (api: Api, workflow: string, limit: number, wanted: string | undefined): Promise<RunRow[]> => {
  const last = await api.store.listRuns({ workflow, limit })
  if (wanted === undefined || last.some(({ id }) => id === wanted)) return last
  const found = await api.store.getRun(wanted as RunId)
  if (found === null || found.workflow !== workflow) return last
  return [found, ...(limit === 1 ? [] : await api.store.listRuns({ workflow, limit: limit - 1, before: found }))]
}
