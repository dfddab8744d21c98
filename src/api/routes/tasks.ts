// Tasks of a run: every instance with its attempts; one instance again; one marked by hand.

import {
  markBody,
  instanceQuery,
  retryPlan,
  retryTaskBody,
  run,
  task,
  taskList,
  taskParams,
  taskQuery,
  runParams,
} from "../../protocol/api/runs.ts"
import { json, strict } from "../../protocol/api/common.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../http/cursors.ts"
import { findRetryTarget, findTask, taskSummary, taskDetails } from "../views/find-task.ts"
import { notFound } from "../http/errors.ts"
import { sendOutput } from "../streams/output-stream.ts"
import { route, STREAMED } from "../http/route.ts"
import { findRun } from "./runs.ts"

const TAG = "tasks"
const instance = strict({ ...instanceQuery })

export const taskRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/tasks",
    tag: TAG,
    summary: "Every instance of a run's tasks, with its attempts",
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
        (row) => taskSummary(api, found, row),
        (row) => numberCursor("t", row.row),
      )
      return { status: 200, body: { ...page, items: await Promise.all(page.items) } }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}",
    tag: TAG,
    summary: "One instance of a task",
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
    tag: TAG,
    summary: "The output of a task, however large",
    scope: "read",
    params: taskParams,
    query: instance,
    responses: { 200: { description: "The output as it is", schema: json } },
    async handle({ params, query, request, reply, api }) {
      const { name, output } = await findTask(api, await findRun(api, params.id), params.name, query)
      if (output === null) throw notFound(`task ${name} has no output`)
      await sendOutput({ api, request, reply }, output)
      return STREAMED
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/tasks/{name}/retry",
    tag: TAG,
    summary: "One instance, or one item of a group, again, and all below it",
    scope: "trigger",
    params: taskParams,
    query: instance,
    body: { schema: retryTaskBody },
    responses: {
      200: { description: "With `plan`: what would run again", schema: retryPlan },
      202: { description: "The run goes on", schema: run },
    },
    errors: [409],
    audit: "task.retry",
    async handle({ params, query, body, api }) {
      const found = await findRun(api, params.id)
      const retried = await findRetryTarget(api, found, params.name, query)
      if (body.plan === true) {
        const { again, kept } = await api.runs.planRetry(found.id, retried)
        return { status: 200, body: { again, kept }, details: "plan only" }
      }
      await api.runs.retry(found.id, retried)
      return { status: 202, body: runShape(await findRun(api, params.id)) }
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/tasks/{name}/mark",
    tag: TAG,
    summary: "Says by hand how a task ended",
    scope: "admin",
    params: taskParams,
    query: instance,
    body: { schema: markBody, required: true },
    responses: { 200: { description: "The task", schema: task } },
    errors: [409],
    audit: "task.mark",
    async handle({ params, query, body, api }) {
      const found = await findRun(api, params.id)
      await api.runs.overrideOutcome(await findTask(api, found, params.name, query), body)
      const marked = await findTask(api, found, params.name, query)
      return { status: 200, body: await taskDetails(api, found, marked), details: `${body.status}: ${body.reason}` }
    },
  }),
]
