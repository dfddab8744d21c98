// Queues: their depth and age, and their limits.

import { queue, queueParams, queues, queueSettings } from "../../../protocol/api/service.ts"
import { notFound } from "../../shared/errors.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route } from "../../http/route.ts"
import { queueShape } from "../../views/service-json.ts"

export const queueRoutes = [
  route({
    method: "GET",
    path: "/queues",
    summary: "List the queues",
    scope: "read",
    concerns: "server",
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
    summary: "Get a queue",
    scope: "read",
    concerns: "server",
    params: queueParams,
    responses: { 200: { description: "The queue", schema: queue } },
    async handle({ params, api }) {
      const found = await api.store.getQueue(params.name)
      if (found === null) throw notFound(`there is no queue ${params.name}: it has neither tasks nor settings`)
      return { status: 200, body: queueShape(found, api.parts.serverStats) }
    },
  }),
  route({
    method: "PUT",
    path: "/queues/{name}",
    summary: "Set the concurrency or the rate limit of a queue, or pause it; other settings stay as they are",
    scope: "admin",
    concerns: "server",
    params: queueParams,
    body: { schema: queueSettings, required: true },
    responses: { 200: { description: "The changed queue", schema: queue } },
    audit: "queue.set",
    async handle({ params, body, api }) {
      describeAction({ details: JSON.stringify(body) })
      const { concurrency, rate_limit: rate, paused } = body
      const row = await api.updateQueue(params.name, {
        ...(concurrency !== undefined && { concurrency }),
        ...(rate !== undefined && {
          rate: rate === null ? null : { limit: rate.limit, periodMs: Math.round(rate.period_seconds * 1000) },
        }),
        ...(paused !== undefined && { paused }),
      })
      return { status: 200, body: queueShape(row, api.parts.serverStats) }
    },
  }),
]
