// `ork schedules`: every schedule with its next ticks.

import type { Context } from "../target/backends.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { instantText, printListing } from "../terminal/listing.ts"
import { parseLimit } from "../terminal/numbers.ts"
import { everyItem, take } from "../../protocol/client/client.ts"

export interface SchedulesOptions extends ServerFlags {
  workflow?: string
  limit: string
  json?: boolean
}

const PAGE = 100

export const schedules = async (context: Context, options: SchedulesOptions): Promise<number> => {
  const limit = parseLimit(options.limit)
  const client = await connect(context, options)
  const filter = options.workflow === undefined ? {} : { workflow: options.workflow }
  const items = await take(
    everyItem((cursor) =>
      client.listSchedules({ ...filter, limit: Math.min(limit, PAGE), ...(cursor !== undefined && { cursor }) }),
    ),
    limit,
  )
  printListing(context, options.json === true, {
    items,
    none: "no schedules",
    header: ["workflow", "cron", "timezone", "state", "last tick (UTC)", "next ticks (UTC)"],
    row: (schedule) => [
      schedule.workflow,
      schedule.cron,
      schedule.timezone,
      schedule.paused ? "paused" : "open",
      instantText(schedule.last_tick_at),
      ticksText(schedule.next_ticks),
    ],
  })
  return 0
}

/** The day is said where it changes. */
const ticksText = (ticks: readonly string[]): string =>
  ticks.map((tick, i) => (ticks[i - 1]?.slice(0, 10) === tick.slice(0, 10) ? tick.slice(11, 19) : instantText(tick))).join(", ")
