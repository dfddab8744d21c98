// Schedules of deployed workflows and their fired ticks. A schedule keeps its row and id as long as it keeps its position in the
// definition. Keys of ticks are kept for ever, so that no tick creates a second run after a deployment, removal or restart.

import type { RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import type { ScheduleSpec } from "../../../core/model/workflow.ts"
import type { Catalog, ScheduleRow, SkippedTick, Tick } from "../../contract/catalog.ts"
import {
  type DeployedSchedules,
  mayFire,
  nextAtOf,
  sameTimes,
  SCHEDULE_COLUMNS,
  type ScheduleColumns,
  scheduleOf,
  scheduleText,
} from "../../shared/schedules.ts"
import type { RunRow } from "../../contract/store.ts"
import { createRuns } from "../runs/create.ts"
import { readRun } from "../runs/run-reads.ts"
import type { StoreContext, Tx } from "../tx.ts"
import { allowed, allowedText } from "./allowed.ts"

const SPECS = "SELECT position, spec FROM schedules WHERE workflow_id = ?"

const PUT = `
INSERT INTO schedules (workflow_id, version_id, position, spec, active, next_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (workflow_id, position) DO UPDATE SET version_id = excluded.version_id, spec = excluded.spec, active = excluded.active,
  next_at = iif(?7, next_at, excluded.next_at), last_tick_at = iif(?7, last_tick_at, NULL)`

const REMOVE_FROM = "DELETE FROM schedules WHERE workflow_id = ? AND position >= ?"

/** Stores the schedules of a deployed version. A schedule with the same times keeps its next tick, so missed ticks stay due. */
export const putSchedules = (tx: Tx, deployed: DeployedSchedules): void => {
  const { workflowId, versionId, active, specs } = deployed
  const rows = tx.db.all<[number, string]>(SPECS, workflowId)
  const before = new Map(rows.map(([position, spec]) => [position, JSON.parse(spec) as ScheduleSpec]))
  for (const [position, spec] of specs.entries()) {
    const old = before.get(position)
    const isSame = old !== undefined && sameTimes(old, spec)
    const next = nextAtOf(deployed, position, old)
    tx.db.run(PUT, workflowId, versionId, position, JSON.stringify(spec), active ? 1 : 0, next, isSame ? 1 : 0)
  }
  if (before.size > specs.length) tx.db.run(REMOVE_FROM, workflowId, specs.length)
}

export const removeSchedules = (tx: Tx, workflowId: number): void => {
  tx.db.run(REMOVE_FROM, workflowId, 0)
}

const PAUSE = "UPDATE schedules SET active = 0 WHERE workflow_id = ?"

export const pauseSchedules = (tx: Tx, workflowId: number): void => {
  tx.db.run(PAUSE, workflowId)
}

const RESUME = "UPDATE schedules SET active = 1, next_at = ? WHERE workflow_id = ? AND position = ? AND active = 0"

/** Resumes paused schedules at their next tick. Ticks during the pause are skipped. */
export const resumeSchedules = (tx: Tx, workflowId: number, nextAt: readonly (string | null)[]): void => {
  for (const [position, next] of nextAt.entries()) tx.db.run(RESUME, next, workflowId, position)
}

const LIST = `
${SCHEDULE_COLUMNS} WHERE s.id > ?1 AND (?2 IS NULL OR w.name = ?2) AND ${allowed("?3")} ORDER BY s.id LIMIT ?4 + 0`

const DUE = `
${SCHEDULE_COLUMNS.replace("schedules s", "schedules s INDEXED BY schedules_due")}
WHERE s.active = 1 AND s.next_at IS NOT NULL AND s.next_at <= ? ORDER BY s.next_at, s.id LIMIT ? + 0`

export const listSchedules = (context: StoreContext, query: Parameters<Catalog["listSchedules"]>[0]): ScheduleRow[] => {
  const { workflow = null, after = 0, limit } = query
  return context.db.list<ScheduleColumns>(LIST, after, workflow, allowedText(query), limit).map(scheduleOf)
}

export const dueSchedules = (context: StoreContext, limit: number): ScheduleRow[] =>
  context.db.list<ScheduleColumns>(DUE, iso(context.clock.now()), limit).map(scheduleOf)

const AHEAD = `${SCHEDULE_COLUMNS} WHERE s.active = 1 AND s.next_at IS NOT NULL AND s.last_tick_at > ? ORDER BY s.id`

export const schedulesAhead = (context: StoreContext): ScheduleRow[] =>
  context.db.list<ScheduleColumns>(AHEAD, iso(context.clock.now())).map(scheduleOf)

const MOVE = "UPDATE schedules SET next_at = ?, last_tick_at = NULL WHERE id = ? AND active = 1 AND next_at = ?"

export const moveSchedules = (tx: Tx, moves: Parameters<Catalog["moveSchedules"]>[0]): void => {
  for (const { scheduleId, expected, nextAt } of moves) tx.db.run(MOVE, nextAt, scheduleId, expected)
}

const NEXT = `
SELECT next_at FROM schedules INDEXED BY schedules_due WHERE active = 1 AND next_at IS NOT NULL ORDER BY next_at LIMIT 1`

export const nextTickMs = (context: StoreContext): number | null => {
  const next = context.db.get<[string]>(NEXT)
  return next === undefined ? null : Math.max(0, Date.parse(next[0]) - context.clock.now())
}

const FIRE = `
UPDATE schedules SET next_at = ?, last_tick_at = ? WHERE id = ? AND active = 1 AND next_at = ?
RETURNING workflow_id, position, spec`

const INSERT_TICK = `
INSERT INTO ticks (workflow_id, schedule, tick_at, run_id, skipped) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

const NEXT_OF = "SELECT next_at FROM schedules WHERE id = ?"

export const fireTicks = (tx: Tx, ticks: readonly Tick[]): { fired: boolean; run: RunRow | null }[] => {
  const ids = new Set(ticks.map(({ scheduleId }) => scheduleId))
  const nextAt = new Map([...ids].map((id) => [id, tx.db.get<[string | null]>(NEXT_OF, id)?.[0] ?? null]))
  const allowed = mayFire(ticks, nextAt)
  const fired = ticks.map((tick, i) => allowed[i]! && fire(tx, tick))
  const runs = ticks.flatMap(({ run }, i) => (fired[i] && run !== null ? [run] : []))
  const created = createRuns(tx, runs)
  return ticks.map(({ run }, i) => ({ fired: fired[i]!, run: fired[i] && run !== null ? created.shift()!.run : null }))
}

/** Returns false when another process has fired the tick, or the schedule has changed. */
const fire = (tx: Tx, { scheduleId, expected, tick, nextAt, run, skipped }: Tick): boolean => {
  const schedule = tx.db.get<[number, number, string]>(FIRE, nextAt, tick, scheduleId, expected)
  if (schedule === undefined) return false
  const [workflowId, position, spec] = schedule
  const key = scheduleText(position, JSON.parse(spec) as ScheduleSpec)
  return tx.db.run(INSERT_TICK, workflowId, key, tick, run === null ? null : run.id, skipped) === 1
}

const ACTIVE_RUNS = `
SELECT seq FROM runs INDEXED BY runs_of_schedule WHERE schedule_id = ? AND finished_at IS NULL ORDER BY seq`

export const activeRunsOf = (context: StoreContext, scheduleId: number): RunRow[] =>
  context.db.all<[number]>(ACTIVE_RUNS, scheduleId).map(([seq]) => readRun(context, seq)!)

const LAST_RUN = `
SELECT run_id FROM ticks WHERE workflow_id = ? AND schedule = ? AND run_id IS NOT NULL ORDER BY tick_at DESC LIMIT 1`

export const lastTickRun = (
  { db }: StoreContext,
  { workflowId, position, spec }: Pick<ScheduleRow, "workflowId" | "position" | "spec">,
): RunId | null => db.get<[RunId]>(LAST_RUN, workflowId, scheduleText(position, spec))?.[0] ?? null

const SKIPPED = `
SELECT tick_at AS tick, skipped AS reason FROM ticks INDEXED BY ticks_skipped
WHERE workflow_id = ? AND schedule = ? AND skipped IS NOT NULL ORDER BY tick_at DESC LIMIT ? + 0`

export const listSkippedTicks = (
  { db }: StoreContext,
  { workflowId, position, spec }: Pick<ScheduleRow, "workflowId" | "position" | "spec">,
  limit: number,
): SkippedTick[] => db.list<SkippedTick>(SKIPPED, workflowId, scheduleText(position, spec), limit)
