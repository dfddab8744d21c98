// Who runs tasks: servers, workers, and `ork run`.

import { workers } from "../../protocol/api/service.ts"
import { route } from "../route.ts"
import { workerShape } from "../shapes.ts"

export const workerRoutes = [
  route({
    method: "GET",
    path: "/workers",
    tag: "workers",
    summary: "Processes that run tasks",
    scope: "read",
    answers: { 200: { about: "The processes", schema: workers } },
    async handle({ api }) {
      return { status: 200, body: { items: (await api.store.listHolders()).map(workerShape) } }
    },
  }),
]
