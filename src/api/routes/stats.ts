// Figures of the whole for dashboards: all of them cheap, whatever the number of runs.

import { iso } from "../../core/model/ports.ts"
import { stats, statsQuery } from "../../protocol/api/service.ts"
import { route } from "../http/route.ts"

export const statsRoutes = [
  route({
    method: "GET",
    path: "/stats",
    tag: "server",
    summary: "Figures of the whole",
    scope: "read",
    query: statsQuery,
    responses: { 200: { description: "The figures", schema: stats } },
    async handle({ query, api }) {
      const columns = query.series === true ? (api.parts.serverStats?.columns() ?? null) : null
      const [found, holders, objectsBytes] = await Promise.all([
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
          runs: found.runs,
          workers: {
            alive: holders.filter((holder) => !holder.dead).length,
            dead: holders.filter((holder) => holder.dead).length,
          },
          queues: {
            ready: found.ready.reduce((sum, queue) => sum + queue.count, 0),
            running: found.running,
            oldest_ready_seconds: found.oldestReadyMs === null ? null : found.oldestReadyMs / 1000,
          },
          database_bytes: found.databaseBytes,
          objects_bytes: objectsBytes,
          streams: api.streams.size,
          series: columns === null ? null : { ...columns, from: iso(columns.from) },
        },
      }
    },
  }),
]
