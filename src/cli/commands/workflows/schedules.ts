// `ork schedules`: lists schedules with their next ticks, each in the time zone of the schedule.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { printListing } from "../../terminal/listing.ts"
import { timeText } from "../../terminal/times.ts"
import { parseLimit } from "../../terminal/option-values.ts"
import { printable } from "../../terminal/text.ts"
import { firstItems } from "../../target/pages.ts"
import type { Schedule } from "../../../protocol/client/client.ts"

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
    header: ["workflow", "cron", "timezone", "state", "last tick", "next ticks", "last skipped tick"],
    row: (schedule) => [
      schedule.workflow,
      schedule.cron,
      schedule.timezone,
      schedule.paused ? "paused" : "open",
      timeText(schedule.last_tick_at, schedule.timezone),
      ticksText(schedule.next_ticks.map((tick) => timeText(tick, schedule.timezone))),
      skippedText(schedule),
    ],
  })
}

/** Joins ticks; a tick on the day of the one before it shows only its time. */
const ticksText = (ticks: readonly string[]): string =>
  ticks.map((tick, i) => (ticks[i - 1]?.slice(0, 10) === tick.slice(0, 10) ? tick.slice(11) : tick)).join(", ")

const skippedText = ({ skipped_ticks: [skipped], timezone }: Schedule): string =>
  skipped === undefined ? "" : `${timeText(skipped.tick, timezone)}: ${printable(skipped.reason)}`
