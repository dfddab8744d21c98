// `ork schedules`: lists schedules with their next ticks.

import type { Context } from "../target/context.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { instantText, printListing } from "../terminal/listing.ts"
import { parseLimit } from "../terminal/option-values.ts"
import { firstItems } from "../target/pages.ts"

export interface SchedulesOptions extends ServerFlags {
  workflow?: string
  limit: string
}

export const schedules = async (context: Context, options: SchedulesOptions): Promise<number> => {
  const limit = parseLimit(options.limit)
  const client = await connect(context, options)
  const filter = options.workflow === undefined ? {} : { workflow: options.workflow }
  return printListing(context, options, {
    items: await firstItems((page) => client.listSchedules({ ...filter, ...page }), limit),
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
}

/** Joins ticks; a tick on the day of the one before it shows only its time. */
const ticksText = (ticks: readonly string[]): string =>
  ticks.map((tick, i) => (ticks[i - 1]?.slice(0, 10) === tick.slice(0, 10) ? tick.slice(11, 19) : instantText(tick))).join(", ")
