// Run views, from which the web UI draws runs: the graph, the instances, and the grid of a workflow's latest runs.

import type { RunId } from "../../../core/model/ids.ts"
import { grid, gridQuery, instanceList, instanceListQuery, runGraph } from "../../../protocol/api/run-views.ts"
import { runParams } from "../../../protocol/api/runs.ts"
import { workflowParams } from "../../../protocol/api/workflows.ts"
import type { RunRow } from "../../../store/contract/store.ts"
import { instanceCursor, pageOf, parseInstanceCursor } from "../../http/cursors.ts"
import { type GridRun, gridShape } from "../../views/grid.ts"
import { runGraph as graphOf } from "../../views/run-graph.ts"
import type { Api } from "../../http/ports.ts"
import { route } from "../../http/route.ts"
import { instanceShape } from "../../views/service-json.ts"
import { findRun } from "../../http/find-run.ts"
import { findWorkflow } from "../workflows/workflows.ts"

export const runViewRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/graph",
    summary: "Get the graph of a run's own workflow version, with the status of each task",
    scope: "read",
    params: runParams,
    responses: { 200: { description: "The graph", schema: runGraph } },
    async handle({ params, api }) {
      return { status: 200, body: await graphOf(api.store, await findRun(api, params.id)) }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/instances",
    summary: "List the task instances of a run with their times, in large pages, without input, output and error",
    scope: "read",
    params: runParams,
    query: instanceListQuery,
    responses: { 200: { description: "A page of instances, in the order of the tasks in the graph", schema: instanceList } },
    async handle({ params, query: { limit, cursor }, api }) {
      const found = await findRun(api, params.id)
      const { nodes } = await api.store.getVersion(found.versionId)
      const rows = await api.store.listInstances({
        runId: found.id,
        limit: limit + 1,
        ...(cursor !== undefined && { after: parseInstanceCursor(cursor) }),
      })
      return { status: 200, body: pageOf(rows, limit, (row) => instanceShape(row, nodes[row.node]!.name), instanceCursor) }
    },
  }),
  route({
    method: "GET",
    path: "/workflows/{name}/grid",
    tag: "workflows",
    summary: "Get the latest runs of a workflow with the status of each task",
    scope: "read",
    params: workflowParams,
    query: gridQuery,
    responses: { 200: { description: "The grid of tasks by runs", schema: grid } },
    async handle({ params: { name }, query: { limit, run }, api }) {
      const runs = await latestRuns(api, name, limit, run)
      // A removed workflow still has runs.
      if (runs.length === 0) await findWorkflow(api, name)
      const gridRuns: GridRun[] = []
      // Sequential reads let the server handle other requests in between.
      for (const each of runs) {
        const [compiled, rows] = await Promise.all([api.store.getVersion(each.versionId), api.store.countRows(each.id)])
        gridRuns.push({ run: each, nodes: compiled.nodes, rows })
      }
      return { status: 200, body: gridShape(name, gridRuns) }
    },
  }),
]

/** Returns the latest runs of a workflow; with `wanted`, the page of runs that begins with that run if it is older. */
const latestRuns = async (api: Api, workflow: string, limit: number, wanted: string | undefined): Promise<RunRow[]> => {
  const latest = await api.store.listRuns({ workflow, limit })
  if (wanted === undefined || latest.some(({ id }) => id === wanted)) return latest
  const found = await api.store.getRun(wanted as RunId)
  if (found === null || found.workflow !== workflow) return latest
  return [found, ...(limit === 1 ? [] : await api.store.listRuns({ workflow, limit: limit - 1, before: found }))]
}
