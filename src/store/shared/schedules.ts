// Schedules of a deployed version, and their identity, in both stores.

import type { ScheduleSpec } from "../../core/model/workflow.ts"

export interface DeployedSchedules {
  workflowId: number
  versionId: number
  /** The workflow is not paused. */
  active: boolean
  specs: readonly ScheduleSpec[]
  /** First tick of each schedule; null: none. */
  nextAt: readonly (string | null)[]
}

/** Returns the part of a tick's key that names its schedule: position, expression and time zone. */
export const scheduleText = (position: number, { cron, timezone }: ScheduleSpec): string => `${position} ${cron} ${timezone}`

/** Returns whether both fire at the same times. */
export const sameTimes = (a: ScheduleSpec, b: ScheduleSpec): boolean =>
  a.cron === b.cron && a.timezone === b.timezone && a.jitterMs === b.jitterMs && a.start === b.start && a.end === b.end
