// Statistics of the whole server for dashboards. Their cost does not grow with the number of runs.

import { iso } from "../../../core/model/ports.ts"
import { stats, statsQuery } from "../../../protocol/api/service.ts"
import { route } from "../../http/route.ts"

export const statsRoutes = [
  route({
    method: "GET",
    path: "/stats",
    summary: "Get the statistics of the server",
    scope: "read",
    concerns: "server",
    query: statsQuery,
    responses: { 200: { description: "The statistics", schema: stats } },
    async handle({ query, api }) {
      const [columns, totals, holders, objectsBytes] = await Promise.all([
        query.series === true ? (api.parts.serverStats?.columns() ?? null) : null,
        api.store.stats(),
        api.store.listHolders(),
        api.parts.serverStats?.objectsBytes() ?? null,
      ])
      return {
        status: 200,
        body: {
          version: api.config.version,
          store: api.store.kind,
          objects: api.objects.kind,
          started_at: iso(api.startedAt),
          uptime_seconds: (api.clock.now() - api.startedAt) / 1000,
          runs: totals.runs,
          workers: {
            alive: holders.filter((holder) => !holder.dead).length,
            dead: holders.filter((holder) => holder.dead).length,
          },
          queues: {
            ready: totals.ready.reduce((sum, queue) => sum + queue.count, 0),
            running: totals.running,
            oldest_ready_seconds: totals.oldestReadyMs === null ? null : totals.oldestReadyMs / 1000,
          },
          database_bytes: totals.databaseBytes,
          objects_bytes: objectsBytes,
          streams: api.streams.size,
          series: columns === null ? null : { ...columns, from: iso(columns.from) },
        },
      }
    },
  }),
]
