// Logs of tasks and jobs: their current content, or followed until the task or job finishes.

import { jobParams } from "../../../protocol/api/jobs.ts"
import { taskParams } from "../../../protocol/api/runs.ts"
import { jobLogQuery, jobLogTimesQuery, logLine, logQuery, logTimes, logTimesQuery } from "../../../protocol/api/streams.ts"
import { findTask } from "../../views/find-task.ts"
import { NDJSON_TYPE, SSE_TYPE } from "../../streams/log-format.ts"
import { followJob, followTask, jobLog, currentLog } from "../../streams/log-source.ts"
import { followLog, sendLog, logTimesOf } from "../../streams/log-stream.ts"
import { route, STREAMED } from "../../http/route.ts"
import { findJob } from "../jobs/jobs.ts"
import { findRun } from "../../http/find-run.ts"

const LOG = {
  200: {
    description:
      "The log: raw, or by Accept as JSON lines or events of LogLine. X-Ork-Next-Offset is the offset of the next read, X-Ork-Size the size of the log.",
    types: ["text/plain", NDJSON_TYPE, SSE_TYPE],
    lines: logLine,
  },
}

const TIMES = { 200: { description: "Times and streams by offset in the raw log", schema: logTimes } }

export const logRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/logs",
    summary: "Read or follow the log of a task",
    scope: "read",
    params: taskParams,
    query: logQuery,
    responses: LOG,
    async handle({ params, query, request, reply, api }) {
      const task = await findTask(api, await findRun(api, params.id), params.name, query)
      const asked = { api, request, reply, offset: query.offset ?? 0, length: query.length }
      const current = await currentLog(api, task, query.attempt)
      if (query.follow === true) await followLog(asked, followTask(api, task, query.attempt))
      else await sendLog(asked, current)
      return STREAMED
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/logs/times",
    summary: "Get the times and the streams of the bytes of a task's log",
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
    summary: "Read or follow the log of a job's latest attempt",
    scope: "read",
    concerns: "server",
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
    summary: "Get the times and the streams of the bytes of a job's log",
    scope: "read",
    concerns: "server",
    params: jobParams,
    query: jobLogTimesQuery,
    responses: TIMES,
    async handle({ params, query, api }) {
      return { status: 200, body: await logTimesOf(jobLog(api, await findJob(api, params.job_id)), query) }
    },
  }),
]
