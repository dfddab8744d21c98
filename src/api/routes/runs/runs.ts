// Runs: list, get, explain, cancel, retry, pause, remove. `POST /workflows/{name}/runs` in workflows.ts creates them.

import {
  explainQuery,
  explanations,
  retryBody,
  retryPlan,
  run,
  runList,
  runParams,
  runQuery,
} from "../../../protocol/api/runs.ts"
import { runShape } from "../../../engine/run-json.ts"
import { pageOf, parseTimeCursor, timeCursor } from "../../http/cursors.ts"
import { findRun, runIdOf } from "../../http/find-run.ts"
import type { Api } from "../../http/ports.ts"
import { listLimits } from "../../auth/auth.ts"
import { invalidField } from "../../shared/errors.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route } from "../../http/route.ts"

const findRunShape = async (api: Api, id: string) => runShape(await findRun(api, id))

export const runRoutes = [
  route({
    method: "GET",
    path: "/runs",
    summary: "List runs, newest first",
    scope: "read",
    concerns: "list",
    query: runQuery,
    responses: { 200: { description: "A page of runs", schema: runList } },
    async handle({ query: { limit, cursor, workflow, status, trigger, created_after, created_before }, caller, api }) {
      const rows = await api.store.listRuns({
        limit: limit + 1,
        ...listLimits(caller),
        ...(cursor !== undefined && { before: parseTimeCursor(cursor) }),
        ...(workflow !== undefined && { workflow }),
        ...(status !== undefined && { status }),
        ...(trigger !== undefined && { trigger }),
        ...(created_after !== undefined && { createdAfter: created_after }),
        ...(created_before !== undefined && { createdBefore: created_before }),
      })
      return { status: 200, body: pageOf(rows, limit, runShape, timeCursor) }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}",
    summary: "Get a run with the number of its tasks by status",
    scope: "read",
    params: runParams,
    responses: { 200: { description: "The run", schema: run } },
    async handle({ params, api }) {
      return { status: 200, body: await findRunShape(api, params.id) }
    },
  }),
  route({
    method: "DELETE",
    path: "/runs/{id}",
    summary: "Remove a finished run with its tasks, logs and outputs",
    scope: "admin",
    params: runParams,
    responses: { 204: { description: "Removed" } },
    errors: [409],
    audit: "run.remove",
    async handle({ params, api }) {
      await api.runs.remove(await runIdOf(api, params.id))
      return { status: 204 }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/explain",
    summary: "Explain why tasks wait, failed or were skipped",
    scope: "read",
    requires: "explain",
    params: runParams,
    query: explainQuery,
    responses: { 200: { description: "One sentence for each task", schema: explanations } },
    async handle({ params, query, api }) {
      const found = await findRun(api, params.id)
      return { status: 200, body: { items: await api.parts.explain!(found.id, query.task) } }
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/cancel",
    summary: "Cancel a run: pending tasks immediately, running tasks when their processes have exited",
    scope: "trigger",
    params: runParams,
    responses: { 202: { description: "The run, which is being cancelled", schema: run } },
    errors: [409],
    audit: "run.cancel",
    async handle({ params, api }) {
      await api.runs.cancel(await runIdOf(api, params.id))
      return { status: 202, body: await findRunShape(api, params.id) }
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/retry",
    summary: "Retry the failed, skipped and cancelled tasks of a run, or one task and everything downstream of it",
    scope: "trigger",
    params: runParams,
    body: { schema: retryBody },
    responses: {
      200: { description: "With `plan`: the tasks that would run again", schema: retryPlan },
      202: { description: "The run, which is running again", schema: run },
    },
    errors: [409],
    audit: "run.retry",
    async handle({ params, body, api }) {
      const { from, step } = body
      const id = await runIdOf(api, params.id)
      if (step !== undefined) {
        if (from !== undefined) throw invalidField("step", "a retry begins at a task or at a step; send only one of them")
        if (body.plan === true) return { status: 200, body: await api.runs.planStepRetry(id, step), audit: false }
        describeAction({ details: `from the step ${step.name}` })
        await api.runs.retryFromStep(id, step)
        return { status: 202, body: await findRunShape(api, params.id) }
      }
      const request = from === undefined ? {} : { from }
      if (body.plan === true) {
        const { again, kept } = await api.runs.planRetry(id, request)
        return { status: 200, body: { again, kept }, audit: false }
      }
      if (from !== undefined) describeAction({ details: `from ${from}` })
      await api.runs.retry(id, request)
      return { status: 202, body: await findRunShape(api, params.id) }
    },
  }),
  ...(["pause", "resume"] as const).map((verb) =>
    route({
      method: "POST",
      path: `/runs/{id}/${verb}`,
      summary: verb === "pause" ? "Pause a run: no further task starts" : "Resume a paused run",
      scope: "trigger",
      params: runParams,
      responses: { 200: { description: "The run", schema: run } },
      errors: [409],
      audit: `run.${verb}`,
      async handle({ params, api }) {
        await api.runs.setPaused(await runIdOf(api, params.id), verb === "pause")
        return { status: 200, body: await findRunShape(api, params.id) }
      },
    }),
  ),
]
