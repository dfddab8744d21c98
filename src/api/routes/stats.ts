// Figures of the whole for dashboards: all of them cheap, whatever the number of runs.

import { iso } from "../../core/ports.ts"
import { stats } from "../../protocol/api/service.ts"
import { route } from "../route.ts"

export const statsRoutes = [
  route({
    method: "GET",
    path: "/stats",
    tag: "server",
    summary: "Figures of the whole",
    scope: "read",
    answers: { 200: { about: "The figures", schema: stats } },
    async handle({ api }) {
      const [found, holders] = await Promise.all([api.store.stats(), api.store.listHolders()])
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
          streams: api.streams.size,
        },
      }
    },
  }),
]
