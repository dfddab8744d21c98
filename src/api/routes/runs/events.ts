// Event streams of one run, or of all runs and jobs.

import { runParams } from "../../../protocol/api/runs.ts"
import { event, eventQuery, runEventQuery } from "../../../protocol/api/streams.ts"
import { lastEventId, streamEvents } from "../../streams/event-stream.ts"
import { SSE_TYPE } from "../../streams/log-format.ts"
import { route, STREAMED } from "../../http/route.ts"
import { findRun } from "../../http/find-run.ts"

const EVENTS = {
  200: {
    description:
      "Events `run`, `task` and `job`, each with an id; Last-Event-ID resumes after it. `log` is a log line. `gap` means that some events are no longer kept.",
    types: [SSE_TYPE],
    lines: event,
  },
}

export const eventRoutes = [
  route({
    method: "GET",
    path: "/events",
    summary: "Stream the events of all runs and jobs",
    scope: "read",
    concerns: "list",
    query: eventQuery,
    responses: EVENTS,
    async handle({ query, request, reply, api }) {
      await streamEvents(api, request, reply, { runId: null, after: lastEventId(request, query.after), logs: false })
      return STREAMED
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/events",
    summary: "Stream the events of a run",
    scope: "read",
    params: runParams,
    query: runEventQuery,
    responses: EVENTS,
    async handle({ params, query, request, reply, api }) {
      const { id } = await findRun(api, params.id)
      const after = lastEventId(request, query.after)
      await streamEvents(api, request, reply, { runId: id, after, logs: query.logs ?? false })
      return STREAMED
    },
  }),
]
