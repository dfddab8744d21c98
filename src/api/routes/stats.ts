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
      const [queues, holders] = await Promise.all([api.store.listQueues(), api.store.listHolders()])
      const ages = queues.map((queue) => queue.oldestReadyMs).filter((age) => age !== null)
      return {
        status: 200,
        body: {
          version: api.config.version,
          store: api.store.kind,
          objects: api.objects.kind,
          started_at: iso(api.startedAt),
          uptime_seconds: (api.clock.now() - api.startedAt) / 1000,
          workers: {
            alive: holders.filter((holder) => !holder.dead).length,
            dead: holders.filter((holder) => holder.dead).length,
          },
          queues: {
            ready: queues.reduce((sum, queue) => sum + queue.ready, 0),
            running: queues.reduce((sum, queue) => sum + queue.running, 0),
            oldest_ready_seconds: ages.length === 0 ? null : Math.max(...ages) / 1000,
          },
          streams: api.streams.size,
        },
      }
    },
  }),
]
