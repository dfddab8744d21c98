// Logs of tasks and jobs, as they stand or followed until the end.

import { jobParams } from "../../protocol/api/jobs.ts"
import { taskParams } from "../../protocol/api/runs.ts"
import { jobLogQuery, jobLogTimesQuery, logLine, logQuery, logTimes, logTimesQuery } from "../../protocol/api/streams.ts"
import { findTask } from "../views/find-task.ts"
import { NDJSON_TYPE, SSE_TYPE } from "../streams/log-format.ts"
import { followJob, followTask, jobLog, currentLog } from "../streams/log-source.ts"
import { followLog, sendLog, logTimesOf } from "../streams/log-stream.ts"
import { route, STREAMED } from "../http/route.ts"
import { findJob } from "./jobs.ts"
import { findRun } from "./runs.ts"

const TAG = "logs"

const LOG = {
  200: {
    description:
      "The log: raw, or by Accept as JSON lines or events of LogLine. X-Ork-Next-Offset tells where to go on, X-Ork-Size how long it is.",
    types: ["text/plain", NDJSON_TYPE, SSE_TYPE],
    lines: logLine,
  },
}

const TIMES = { 200: { description: "Times and streams by byte of the raw log", schema: logTimes } }

export const logRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/logs",
    tag: TAG,
    summary: "What a task wrote",
    scope: "read",
    params: taskParams,
    query: logQuery,
    responses: LOG,
    async handle({ params, query, request, reply, api }) {
      const task = await findTask(api, await findRun(api, params.id), params.name, query)
      const asked = { api, request, reply, offset: query.offset ?? 0, length: query.length }
      const present = await currentLog(api, task, query.attempt)
      if (query.follow === true) await followLog(asked, followTask(api, task, query.attempt))
      else await sendLog(asked, present)
      return STREAMED
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/logs/times",
    tag: TAG,
    summary: "When a task wrote what, and to which stream",
    scope: "read",
    params: taskParams,
    query: logTimesQuery,
    responses: TIMES,
    async handle({ params, query, api }) {
      const task = await findTask(api, await findRun(api, params.id), params.name, query)
      return { status: 200, body: await logTimesOf(await currentLog(api, task, query.attempt), query) }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/logs",
    tag: TAG,
    summary: "What the latest attempt of a job wrote",
    scope: "read",
    params: jobParams,
    query: jobLogQuery,
    responses: LOG,
    async handle({ params, query, request, reply, api }) {
      const job = await findJob(api, params.job_id)
      const asked = { api, request, reply, offset: query.offset ?? 0, length: query.length }
      if (query.follow === true) await followLog(asked, followJob(api, job))
      else await sendLog(asked, jobLog(api, job))
      return STREAMED
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/logs/times",
    tag: TAG,
    summary: "When the latest attempt of a job wrote what, and to which stream",
    scope: "read",
    params: jobParams,
    query: jobLogTimesQuery,
    responses: TIMES,
    async handle({ params, query, api }) {
      return { status: 200, body: await logTimesOf(jobLog(api, await findJob(api, params.job_id)), query) }
    },
  }),
]
