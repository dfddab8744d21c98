// How stores tell schedules apart, alike on both backends.

import type { ScheduleSpec } from "../../core/model/workflow.ts"

/** What a tick's key names: the place in the definition, the expression and its zone. */
export const scheduleText = (position: number, { cron, timezone }: ScheduleSpec): string => `${position} ${cron} ${timezone}`

/** Whether both fire at the same times. */
export const sameTimes = (a: ScheduleSpec, b: ScheduleSpec): boolean =>
  a.cron === b.cron && a.timezone === b.timezone && a.jitterMs === b.jitterMs && a.start === b.start && a.end === b.end
