// Schedules of deployed workflows and their fired ticks. A schedule keeps its row and id as long as it keeps its position in the
// definition. Keys of ticks are kept for ever, so that no tick creates a second run after a deployment, removal or restart. Callers
// lock the row of the workflow before they change its schedules.

import type { RunId } from "../../../core/model/ids.ts"
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
import type { Tx } from "../tx.ts"
import { ALLOWED, allowedText } from "./allowed.ts"
import { readRuns } from "../runs/run-reads.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

const SPECS = statement("schedules_specs", "SELECT position, spec FROM schedules WHERE workflow_id = :workflowId")

const PUT = statement(
  "schedules_put",
  `INSERT INTO schedules AS s (workflow_id, version_id, position, spec, active, next_at)
   SELECT :workflowId, :versionId, c.position, c.spec, :active, c.next_at
   FROM unnest(:positions::int[], :specs::text[], :nextAts::timestamptz[]) AS c (position, spec, next_at) ORDER BY c.position
   ON CONFLICT (workflow_id, position) DO UPDATE SET version_id = excluded.version_id, spec = excluded.spec,
     active = excluded.active,
     next_at = CASE WHEN excluded.position = ANY (:unchanged::int[]) THEN s.next_at ELSE excluded.next_at END,
     last_tick_at = CASE WHEN excluded.position = ANY (:unchanged::int[]) THEN s.last_tick_at END`,
)

const REMOVE_FROM = statement("schedules_remove", "DELETE FROM schedules WHERE workflow_id = :workflowId AND position >= :from")

/** Stores the schedules of a deployed version. A schedule with the same times keeps its next tick, so missed ticks stay due. */
export const putSchedules = async (tx: SqlRunner, deployed: DeployedSchedules): Promise<void> => {
  const { workflowId, versionId, active, specs } = deployed
  const rows = await tx.run<{ position: number; spec: string }>(SPECS, { workflowId })
  const before = new Map(rows.map(({ position, spec }) => [position, JSON.parse(spec) as ScheduleSpec]))
  const same = specs.flatMap((spec, i) => (before.has(i) && sameTimes(before.get(i)!, spec) ? [i] : []))
  if (specs.length > 0)
    await tx.run(PUT, {
      workflowId,
      versionId,
      active,
      positions: specs.map((_, i) => i),
      specs: specs.map((spec) => JSON.stringify(spec)),
      nextAts: specs.map((_, i) => nextAtOf(deployed, i, before.get(i))),
      unchanged: same,
    })
  if (before.size > specs.length) await tx.run(REMOVE_FROM, { workflowId, from: specs.length })
}

export const removeSchedules = async (tx: SqlRunner, workflowId: number): Promise<void> => {
  await tx.run(REMOVE_FROM, { workflowId, from: 0 })
}

const PAUSE = statement("schedules_pause", "UPDATE schedules SET active = false WHERE workflow_id = :workflowId")

export const pauseSchedules = async (tx: SqlRunner, workflowId: number): Promise<void> => {
  await tx.run(PAUSE, { workflowId })
}

const RESUME = statement(
  "schedules_resume",
  `UPDATE schedules s SET active = true, next_at = c.next_at
   FROM unnest(:positions::int[], :nextAts::timestamptz[]) AS c (position, next_at)
   WHERE s.workflow_id = :workflowId AND s.position = c.position AND NOT s.active`,
)

/** Resumes paused schedules at their next tick. Ticks during the pause are skipped. */
export const resumeSchedules = async (tx: SqlRunner, workflowId: number, nextAt: readonly (string | null)[]): Promise<void> => {
  await tx.run(RESUME, {
    workflowId,
    positions: nextAt.map((_, position) => position),
    nextAts: nextAt,
  })
}

const LIST = statement(
  "schedules_list",
  `${SCHEDULE_COLUMNS} WHERE s.id > :after::bigint AND (:workflow::text IS NULL OR w.name = :workflow) AND ${ALLOWED}
   ORDER BY s.id LIMIT :limit::int`,
)

export const listSchedules = async (
  connection: SqlRunner,
  query: Parameters<Catalog["listSchedules"]>[0],
): Promise<ScheduleRow[]> => {
  const { workflow = null, after = 0, limit } = query
  const rows = await connection.run<ScheduleColumns>(LIST, { after, limit, workflow, only: allowedText(query) })
  return rows.map(scheduleOf)
}

const DUE = statement(
  "schedules_due",
  `${SCHEDULE_COLUMNS} WHERE s.active AND s.next_at IS NOT NULL AND s.next_at <= ${NOW}
   ORDER BY s.next_at, s.id LIMIT :limit::int`,
)

export const dueSchedules = async (connection: SqlRunner, limit: number): Promise<ScheduleRow[]> =>
  (await connection.run<ScheduleColumns>(DUE, { limit })).map(scheduleOf)

const AHEAD = statement(
  "schedules_ahead",
  `${SCHEDULE_COLUMNS} WHERE s.active AND s.next_at IS NOT NULL AND s.last_tick_at > ${NOW} ORDER BY s.id`,
)

export const schedulesAhead = async (connection: SqlRunner): Promise<ScheduleRow[]> =>
  (await connection.run<ScheduleColumns>(AHEAD)).map(scheduleOf)

const MOVE = statement(
  "schedules_move",
  `UPDATE schedules SET next_at = :nextAt::timestamptz, last_tick_at = NULL
   WHERE id = :scheduleId AND active AND next_at = :expected::timestamptz`,
)

export const moveSchedules = async (tx: SqlRunner, moves: Parameters<Catalog["moveSchedules"]>[0]): Promise<void> => {
  for (const move of moves) await tx.run(MOVE, move)
}

const NEXT = statement(
  "schedules_next",
  `SELECT GREATEST(0, ceil(extract(epoch FROM next_at - ${NOW}) * 1000))::float8 AS ms
   FROM schedules WHERE active AND next_at IS NOT NULL ORDER BY next_at LIMIT 1`,
)

export const nextTickMs = async (connection: SqlRunner): Promise<number | null> =>
  (await connection.run<{ ms: number }>(NEXT))[0]?.ms ?? null

const LOCK = statement(
  "ticks_lock",
  `SELECT id FROM workflows WHERE id IN (SELECT workflow_id FROM schedules WHERE id = ANY (:ids::bigint[])) ORDER BY id FOR UPDATE`,
)

const FIND = statement(
  "ticks_find",
  `SELECT id, position, spec, next_at AS "nextAt" FROM schedules WHERE id = ANY (:ids::bigint[])`,
)

const FIRE = statement(
  "ticks_fire",
  `WITH fired AS (
     UPDATE schedules SET next_at = :nextAt::timestamptz, last_tick_at = :tick::timestamptz
     WHERE id = :scheduleId AND active AND next_at = :expected::timestamptz RETURNING workflow_id
   )
   INSERT INTO ticks (workflow_id, schedule, tick_at, run_id, skipped)
   SELECT workflow_id, :schedule, :tick::timestamptz, :runId::uuid, :skipped::text FROM fired
   ON CONFLICT DO NOTHING RETURNING 1`,
)

export const fireTicks = async (tx: Tx, ticks: readonly Tick[]): Promise<{ fired: boolean; run: RunRow | null }[]> => {
  const ids = { ids: [...new Set(ticks.map(({ scheduleId }) => scheduleId))] }
  const locked = tx.run(LOCK, ids)
  const finding = tx.run<{ id: number; position: number; spec: string; nextAt: string | null }>(FIND, ids)
  await locked
  const schedules = await finding
  const keys = new Map(
    schedules.map(({ id, position, spec }) => [id, scheduleText(position, JSON.parse(spec) as ScheduleSpec)]),
  )
  const allowed = mayFire(ticks, new Map(schedules.map(({ id, nextAt }) => [id, nextAt])))
  const replies = ticks.map(({ scheduleId, expected, tick, nextAt, run, skipped }, i) =>
    allowed[i]!
      ? tx.run(FIRE, {
          scheduleId,
          expected,
          tick,
          nextAt,
          schedule: keys.get(scheduleId) ?? "",
          runId: run?.id ?? null,
          skipped,
        })
      : [],
  )
  const fired: boolean[] = []
  for (const reply of replies) fired.push((await reply).length === 1)
  const runs = ticks.flatMap(({ run }, i) => (fired[i] && run !== null ? [run] : []))
  const created = runs.length === 0 ? [] : await createRuns(tx, runs)
  return ticks.map(({ run }, i) => ({ fired: fired[i]!, run: fired[i] && run !== null ? created.shift()!.run : null }))
}

const ACTIVE_RUNS = statement(
  "schedules_active_runs",
  `SELECT seq FROM runs WHERE schedule_id = :scheduleId AND schedule_id IS NOT NULL AND status IN ('pending', 'running') ORDER BY seq`,
)

export const activeRunsOf = async (connection: SqlRunner, scheduleId: number): Promise<RunRow[]> => {
  const seqs = (await connection.run<{ seq: number }>(ACTIVE_RUNS, { scheduleId })).map(({ seq }) => seq)
  const runs = await readRuns(connection, seqs)
  return seqs.flatMap((seq) => runs.get(seq) ?? [])
}

const LAST_RUN = statement(
  "ticks_last_run",
  `SELECT run_id AS id FROM ticks
   WHERE workflow_id = :workflowId::bigint AND schedule = :schedule AND run_id IS NOT NULL ORDER BY tick_at DESC LIMIT 1`,
)

export const lastTickRun = async (
  connection: SqlRunner,
  { workflowId, position, spec }: Pick<ScheduleRow, "workflowId" | "position" | "spec">,
): Promise<RunId | null> => {
  const [found] = await connection.run<{ id: RunId }>(LAST_RUN, { workflowId, schedule: scheduleText(position, spec) })
  return found?.id ?? null
}

const SKIPPED = statement(
  "ticks_skipped",
  `SELECT tick_at AS tick, skipped AS reason FROM ticks
   WHERE workflow_id = :workflowId::bigint AND schedule = :schedule AND skipped IS NOT NULL ORDER BY tick_at DESC LIMIT :limit::int`,
)

export const listSkippedTicks = (
  connection: SqlRunner,
  { workflowId, position, spec }: Pick<ScheduleRow, "workflowId" | "position" | "spec">,
  limit: number,
): Promise<SkippedTick[]> => connection.run<SkippedTick>(SKIPPED, { workflowId, schedule: scheduleText(position, spec), limit })
