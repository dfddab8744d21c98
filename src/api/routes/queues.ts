// Queues: how deep, how old, how much at once, how fast, and whether they rest.

import { queue, queueParams, queues, queueSettings } from "../../protocol/api/service.ts"
import { notFound } from "../http/errors.ts"
import { route } from "../http/route.ts"
import { queueShape } from "../views/shapes.ts"

const TAG = "queues"

export const queueRoutes = [
  route({
    method: "GET",
    path: "/queues",
    tag: TAG,
    summary: "All queues",
    scope: "read",
    responses: { 200: { description: "The queues", schema: queues } },
    async handle({ api }) {
      return {
        status: 200,
        body: { items: (await api.store.listQueues()).map((row) => queueShape(row, api.parts.serverStats)) },
      }
    },
  }),
  route({
    method: "GET",
    path: "/queues/{name}",
    tag: TAG,
    summary: "A queue",
    scope: "read",
    params: queueParams,
    responses: { 200: { description: "The queue", schema: queue } },
    async handle({ params, api }) {
      const found = await api.store.getQueue(params.name)
      if (found === null) throw notFound(`there is no queue ${params.name}: nothing was put into it, and it has no settings`)
      return { status: 200, body: queueShape(found, api.parts.serverStats) }
    },
  }),
  route({
    method: "PUT",
    path: "/queues/{name}",
    tag: TAG,
    summary: "Sets concurrency, rate limit or pause; what is not named stays",
    scope: "admin",
    params: queueParams,
    body: { schema: queueSettings, required: true },
    responses: { 200: { description: "The queue as it is now", schema: queue } },
    audit: "queue.set",
    async handle({ params, body, api }) {
      const { concurrency, rate_limit: rate, paused } = body
      const made = await api.queues.update(params.name, {
        ...(concurrency !== undefined && { concurrency }),
        ...(rate !== undefined && {
          rate: rate === null ? null : { limit: rate.limit, periodMs: Math.round(rate.period_seconds * 1000) },
        }),
        ...(paused !== undefined && { paused }),
      })
      return { status: 200, body: queueShape(made, api.parts.serverStats), details: JSON.stringify(body) }
    },
  }),
]
