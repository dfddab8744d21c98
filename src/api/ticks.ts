// The next ticks of a schedule, within its start and end.

import { nextTicks } from "../core/cron.ts"
import type { ScheduleSpec } from "../core/workflow.ts"

export const ticksAfter = (spec: ScheduleSpec, now: number, count: number): string[] => {
  const start = spec.start === undefined ? now : Math.max(now, Date.parse(spec.start) - 1)
  const end = spec.end === undefined ? Number.POSITIVE_INFINITY : Date.parse(spec.end)
  return nextTicks(spec.cron, spec.timezone, new Date(start), count)
    .filter((tick) => tick.getTime() <= end)
    .map((tick) => tick.toISOString())
}
