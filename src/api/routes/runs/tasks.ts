// Tasks of a run: list the instances with their attempts, get one, retry one, override an outcome.

import {
  overrideBody,
  instanceQuery,
  retryPlan,
  retryTaskBody,
  run,
  task,
  taskList,
  taskParams,
  taskQuery,
  runParams,
} from "../../../protocol/api/runs.ts"
import { json, strictObject } from "../../../protocol/api/common.ts"
import { runShape } from "../../../engine/run-json.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../../http/cursors.ts"
import { findRetryTarget, findTask, taskDetails, taskSummaries } from "../../views/find-task.ts"
import { conflict, notFound } from "../../shared/errors.ts"
import type { Json } from "../../../core/values/json.ts"
import { OutputsTooLarge, WholeOutputs } from "../../../engine/services/whole-output.ts"
import type { RunRow, TaskRow } from "../../../store/contract/store.ts"
import type { Api } from "../../http/ports.ts"
import { sendOutput } from "../../streams/output-stream.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route, STREAMED } from "../../http/route.ts"
import { findRun } from "../../http/find-run.ts"

const instance = strictObject({ ...instanceQuery })

const MAX_WHOLE_BYTES = 64 * 2 ** 20

/** Returns the output of all of a fan-out or group. */
const wholeOutput = async (api: Api, { versionId }: RunRow, row: TaskRow): Promise<Json> => {
  const outputs = new WholeOutputs({ store: api.store, objects: api.objects, maxBytes: MAX_WHOLE_BYTES })
  try {
    return await outputs.readRow(await api.store.getVersion(versionId), row)
  } catch (error) {
    if (!(error instanceof OutputsTooLarge)) throw error
    throw conflict(`the outputs of ${row.name} are together larger than 64 MiB; select an instance with index=N`)
  }
}

export const taskRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/tasks",
    summary: "List the task instances of a run with their attempts",
    scope: "read",
    params: runParams,
    query: taskQuery,
    responses: { 200: { description: "A page of tasks", schema: taskList } },
    async handle({ params, query: { limit, cursor, name }, api }) {
      const found = await findRun(api, params.id)
      const rows = await api.store.listTasks({
        runId: found.id,
        limit: limit + 1,
        ...(name !== undefined && { name }),
        ...(cursor !== undefined && { after: parseNumberCursor("t", cursor) }),
      })
      const page = pageOf(
        rows,
        limit,
        (row) => row,
        (row) => numberCursor("t", row.row),
      )
      return { status: 200, body: { ...page, items: await taskSummaries(api, found, page.items) } }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}",
    summary: "Get one instance of a task",
    scope: "read",
    params: taskParams,
    query: instance,
    responses: { 200: { description: "The task", schema: task } },
    async handle({ params, query, api }) {
      const found = await findRun(api, params.id)
      return { status: 200, body: await taskDetails(api, found, await findTask(api, found, params.name, query)) }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/output",
    summary: "Get the output of a task, whatever its size; of a fan-out or group without an instance, all of its outputs",
    scope: "read",
    params: taskParams,
    query: instance,
    responses: { 200: { description: "The output", schema: json } },
    errors: [409],
    async handle({ params, query, request, reply, api }) {
      const run = await findRun(api, params.id)
      const isWhole = Object.values(query).every((selector) => selector === undefined)
      const whole = isWhole ? await api.store.getTask({ runId: run.id, name: params.name, path: "" }) : null
      if (whole !== null && whole.kind !== "task") {
        await sendOutput({ api, request, reply }, { inline: await wholeOutput(api, run, whole) })
        return STREAMED
      }
      const { name, output } = await findTask(api, run, params.name, query)
      if (output === null) throw notFound(`task ${name} has no output`)
      await sendOutput({ api, request, reply }, output)
      return STREAMED
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/tasks/{name}/retry",
    summary: "Retry one instance of a task, or one item of a group, and everything downstream of it",
    scope: "trigger",
    params: taskParams,
    query: instance,
    body: { schema: retryTaskBody },
    responses: {
      200: { description: "With `plan`: the tasks that would run again", schema: retryPlan },
      202: { description: "The run, which is running again", schema: run },
    },
    errors: [409],
    audit: "task.retry",
    async handle({ params, query, body, api }) {
      const found = await findRun(api, params.id)
      const target = await findRetryTarget(api, found, params.name, query)
      if (body.plan === true) {
        const { again, kept } = await api.runs.planRetry(found.id, target)
        return { status: 200, body: { again, kept }, audit: false }
      }
      await api.runs.retry(found.id, target)
      return { status: 202, body: runShape(await findRun(api, params.id)) }
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/tasks/{name}/mark",
    summary: "Override the outcome of a task",
    scope: "admin",
    params: taskParams,
    query: instance,
    body: { schema: overrideBody, required: true },
    responses: { 200: { description: "The task", schema: task } },
    errors: [409],
    audit: "task.mark",
    async handle({ params, query, body, api }) {
      const found = await findRun(api, params.id)
      describeAction({ details: `${body.status}: ${body.reason}`, made: (outcome: string) => outcome === "done" })
      await api.runs.overrideOutcome(await findTask(api, found, params.name, query), body)
      const overridden = await findTask(api, found, params.name, query)
      return { status: 200, body: await taskDetails(api, found, overridden) }
    },
  }),
]
