// Schedules of a deployed version, and their identity, in both stores.

import type { ScheduleSpec } from "../../core/model/workflow.ts"
import type { ScheduleRow, Tick } from "../contract/catalog.ts"

export interface DeployedSchedules {
  workflowId: number
  versionId: number
  /** The workflow is not paused. */
  active: boolean
  specs: readonly ScheduleSpec[]
  /** Next firing of each schedule; null: none. */
  nextAt: readonly (string | null)[]
  /** The same for schedules that are new or have a new `start`. */
  firstAt: readonly (string | null)[]
}

/** Returns when a deployed schedule fires next, given the spec that it replaces. */
export const nextAtOf = (
  { specs, nextAt, firstAt }: DeployedSchedules,
  position: number,
  replaced: ScheduleSpec | undefined,
): string | null => {
  const isNew = replaced === undefined || replaced.start !== specs[position]!.start
  return (isNew ? firstAt : nextAt)[position] ?? null
}

/** Returns the part of a tick's key that names its schedule: position, expression and time zone. */
export const scheduleText = (position: number, { cron, timezone }: ScheduleSpec): string => `${position} ${cron} ${timezone}`

/** Returns whether both fire at the same times. */
export const sameTimes = (a: ScheduleSpec, b: ScheduleSpec): boolean =>
  a.cron === b.cron && a.timezone === b.timezone && a.jitterMs === b.jitterMs && a.start === b.start && a.end === b.end

export const SCHEDULE_COLUMNS = `
SELECT s.id, s.workflow_id AS "workflowId", w.name AS workflow, s.version_id AS "versionId", s.position, s.spec,
  NOT s.active AS paused, s.next_at AS "nextAt", s.last_tick_at AS "lastTickAt"
FROM schedules s JOIN workflows w ON w.id = s.workflow_id`

export type ScheduleColumns = Omit<ScheduleRow, "spec" | "paused"> & { spec: string; paused: boolean | number }

export const scheduleOf = (columns: ScheduleColumns): ScheduleRow => ({
  ...columns,
  spec: JSON.parse(columns.spec) as ScheduleSpec,
  paused: Boolean(columns.paused),
})

/**
 * Returns for each tick whether it may fire. The ticks of a schedule were planned together, so they fire together, or not at all when another
 * server has fired the first of them: what they skip, and the runs that were cancelled for them, would be outdated. `nextAt`: by schedule.
 */
export const mayFire = (ticks: readonly Tick[], nextAt: ReadonlyMap<number, string | null>): boolean[] => {
  const first = new Map<number, string>()
  for (const { scheduleId, expected } of ticks) if (!first.has(scheduleId)) first.set(scheduleId, expected)
  return ticks.map(({ scheduleId }) => first.get(scheduleId) === nextAt.get(scheduleId))
}
