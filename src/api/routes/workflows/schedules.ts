// Schedules of all deployed workflows, with their next and skipped ticks.

import { scheduleList, scheduleQuery } from "../../../protocol/api/workflows.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../../http/cursors.ts"
import { invalidField } from "../../shared/errors.ts"
import { listLimits } from "../../auth/auth.ts"
import { route } from "../../http/route.ts"
import { scheduleShape } from "../../views/service-json.ts"

/** Bounds the time of a request, which computes the ticks. */
const MAX_TICKS = 4000
const SKIPPED_TICKS = 5

export const scheduleRoutes = [
  route({
    method: "GET",
    path: "/schedules",
    summary: "List the schedules with their next ticks, and the last ticks that created no run",
    scope: "read",
    concerns: "list",
    query: scheduleQuery,
    responses: { 200: { description: "A page of schedules", schema: scheduleList } },
    async handle({ query: { limit, cursor, workflow, ticks }, caller, api }) {
      if (ticks * limit > MAX_TICKS) {
        throw invalidField("ticks", `must be at most ${Math.floor(MAX_TICKS / limit)} with a limit of ${limit}`)
      }
      const rows = await api.store.listSchedules({
        limit: limit + 1,
        ...listLimits(caller),
        ...(workflow !== undefined && { workflow }),
        ...(cursor !== undefined && { after: parseNumberCursor("s", cursor) }),
      })
      const skipped = new Map(
        await Promise.all(rows.map(async (row) => [row.id, await api.store.listSkippedTicks(row, SKIPPED_TICKS)] as const)),
      )
      const now = api.clock.now()
      return {
        status: 200,
        body: pageOf(
          rows,
          limit,
          (row) => scheduleShape(row, skipped.get(row.id)!, { now, ticks }),
          (row) => numberCursor("s", row.id),
        ),
      }
    },
  }),
]
