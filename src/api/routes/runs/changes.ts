// Changes of workflows, runs and jobs, and who made them, from the audit log. Readers see neither addresses nor keys.

import { changeList } from "../../../protocol/api/service.ts"
import { jobParams } from "../../../protocol/api/jobs.ts"
import { runParams } from "../../../protocol/api/runs.ts"
import { pageQuery, workflowParams } from "../../../protocol/api/workflows.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../../http/cursors.ts"
import type { Api } from "../../http/ports.ts"
import { route } from "../../http/route.ts"
import { changeShape } from "../../views/service-json.ts"
import { findJob } from "../jobs/jobs.ts"
import { findRun } from "../../http/find-run.ts"

type Kind = Parameters<Api["store"]["listChanges"]>[0]["kind"]

const responses = { 200: { description: "A page of changes", schema: changeList } }

const listChanges = async (
  api: Api,
  kind: Kind,
  of: string,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
) => {
  const before = cursor === undefined ? {} : { before: parseNumberCursor("a", cursor) }
  const rows = await api.store.listChanges({ kind, of, limit: limit + 1, ...before })
  const body = pageOf(
    rows,
    limit,
    (row) => changeShape(row, of),
    (row) => numberCursor("a", row.seq),
  )
  return { status: 200, body }
}

export const changeRoutes = [
  route({
    method: "GET",
    path: "/workflows/{name}/changes",
    tag: "workflows",
    summary: "List who deployed, paused, resumed, backfilled or removed a workflow, newest first",
    scope: "read",
    params: workflowParams,
    query: pageQuery,
    responses,
    handle: ({ params, query, api }) => listChanges(api, "workflow", params.name, query),
  }),
  route({
    method: "GET",
    path: "/runs/{id}/changes",
    tag: "runs",
    summary: "List who started, cancelled, retried, paused, approved or changed a run or its tasks, newest first",
    scope: "read",
    params: runParams,
    query: pageQuery,
    responses,
    handle: async ({ params, query, api }) => listChanges(api, "run", (await findRun(api, params.id)).id, query),
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/changes",
    tag: "jobs",
    summary: "List who created, changed or cancelled a job, newest first",
    scope: "read",
    concerns: "server",
    params: jobParams,
    query: pageQuery,
    responses,
    handle: async ({ params, query, api }) => listChanges(api, "job", (await findJob(api, params.job_id)).id, query),
  }),
]
