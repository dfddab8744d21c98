// Schedules of deployed workflows and the ticks that they fired. A schedule keeps its row, and so its id, by its place in the
// definition; a tick's key is kept for ever, so no tick makes a second run whatever is deployed, removed or restarted.
// Whoever changes schedules has locked their workflow's row before.

import type { ScheduleSpec } from "../../../core/model/workflow.ts"
import type { ScheduleRow, Tick } from "../../contract/catalog.ts"
import { sameTimes, scheduleText } from "../../shared/schedule-text.ts"
import type { RunRow } from "../../contract/store.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { createRuns } from "../runs/create.ts"
import type { Tx } from "../connection/tx.ts"
import { readRuns } from "../runs/run-reads.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

interface Deployed {
  workflowId: number
  versionId: number
  active: boolean
  specs: readonly ScheduleSpec[]
  nextAt: readonly (string | null)[]
}

const SPECS = statement("schedules_specs", "SELECT position, spec FROM schedules WHERE workflow_id = $1")

const PUT = statement(
  "schedules_put",
  `INSERT INTO schedules AS s (workflow_id, version_id, position, spec, active, next_at)
   SELECT $1, $2, c.position, c.spec, $3, c.next_at
   FROM unnest($4::int[], $5::text[], $6::timestamptz[]) AS c (position, spec, next_at) ORDER BY c.position
   ON CONFLICT (workflow_id, position) DO UPDATE SET version_id = excluded.version_id, spec = excluded.spec,
     active = excluded.active,
     next_at = CASE WHEN excluded.position = ANY ($7::int[]) THEN s.next_at ELSE excluded.next_at END,
     last_tick_at = CASE WHEN excluded.position = ANY ($7::int[]) THEN s.last_tick_at END`,
)

const REMOVE_FROM = statement("schedules_remove", "DELETE FROM schedules WHERE workflow_id = $1 AND position >= $2")

/** One whose times are as before goes on where it stands: ticks that it missed meanwhile are still due. */
export const putSchedules = async (
  tx: SqlRunner,
  { workflowId, versionId, active, specs, nextAt }: Deployed,
): Promise<void> => {
  const rows = await tx.run<{ position: number; spec: string }>(SPECS, [workflowId])
  const before = new Map(rows.map(({ position, spec }) => [position, JSON.parse(spec) as ScheduleSpec]))
  const same = specs.flatMap((spec, i) => (before.has(i) && sameTimes(before.get(i)!, spec) ? [i] : []))
  if (specs.length > 0)
    await tx.run(PUT, [
      workflowId,
      versionId,
      active,
      arrayParam(specs.map((_, i) => i)),
      textArrayParam(specs.map((spec) => JSON.stringify(spec))),
      arrayParam(specs.map((_, i) => nextAt[i] ?? null)),
      anyParam(same),
    ])
  if (before.size > specs.length) await tx.run(REMOVE_FROM, [workflowId, specs.length])
}

export const removeSchedules = async (tx: SqlRunner, workflowId: number): Promise<void> => {
  await tx.run(REMOVE_FROM, [workflowId, 0])
}

const REST = statement("schedules_rest", "UPDATE schedules SET active = false WHERE workflow_id = $1")

export const pauseSchedules = async (tx: SqlRunner, workflowId: number): Promise<void> => {
  await tx.run(REST, [workflowId])
}

const RESUME = statement(
  "schedules_resume",
  `UPDATE schedules s SET active = true, next_at = c.next_at
   FROM unnest($2::int[], $3::timestamptz[]) AS c (position, next_at)
   WHERE s.workflow_id = $1 AND s.position = c.position AND NOT s.active`,
)

/** What it missed while it rested is not made up for. */
export const resumeSchedules = async (tx: SqlRunner, workflowId: number, nextAt: readonly (string | null)[]): Promise<void> => {
  await tx.run(RESUME, [workflowId, arrayParam(nextAt.map((_, position) => position)), arrayParam(nextAt)])
}

const COLUMNS = `
SELECT s.id, s.workflow_id AS "workflowId", w.name AS workflow, s.version_id AS "versionId", s.position, s.spec,
  NOT s.active AS paused, s.next_at AS "nextAt", s.last_tick_at AS "lastTickAt"
FROM schedules s JOIN workflows w ON w.id = s.workflow_id`

type Columns = Omit<ScheduleRow, "spec"> & { spec: string }

const scheduleOf = (columns: Columns): ScheduleRow => ({ ...columns, spec: JSON.parse(columns.spec) as ScheduleSpec })

const LIST = statement("schedules_list", `${COLUMNS} WHERE s.id > $1::bigint ORDER BY s.id LIMIT $2::int`)

const LIST_OF_WORKFLOW = statement(
  "schedules_list_of_workflow",
  `${COLUMNS} WHERE s.id > $1::bigint AND w.name = $3 ORDER BY s.id LIMIT $2::int`,
)

export const listSchedules = async (
  session: SqlRunner,
  { workflow, after = 0, limit }: { workflow?: string; after?: number; limit: number },
): Promise<ScheduleRow[]> => {
  const rows =
    workflow === undefined
      ? await session.run<Columns>(LIST, [after, limit])
      : await session.run<Columns>(LIST_OF_WORKFLOW, [after, limit, workflow])
  return rows.map(scheduleOf)
}

const DUE = statement(
  "schedules_due",
  `${COLUMNS} WHERE s.active AND s.next_at IS NOT NULL AND s.next_at <= COALESCE($1::timestamptz, now())
   ORDER BY s.next_at, s.id LIMIT $2::int`,
)

export const dueSchedules = async (session: SqlRunner, now: string | null, limit: number): Promise<ScheduleRow[]> =>
  (await session.run<Columns>(DUE, [now, limit])).map(scheduleOf)

const NEXT = statement(
  "schedules_next",
  `SELECT GREATEST(0, ceil(extract(epoch FROM next_at - COALESCE($1::timestamptz, now())) * 1000))::float8 AS ms
   FROM schedules WHERE active AND next_at IS NOT NULL ORDER BY next_at LIMIT 1`,
)

export const nextTickMs = async (session: SqlRunner, now: string | null): Promise<number | null> =>
  (await session.run<{ ms: number }>(NEXT, [now]))[0]?.ms ?? null

const LOCK = statement(
  "ticks_lock",
  `SELECT id FROM workflows WHERE id IN (SELECT workflow_id FROM schedules WHERE id = ANY ($1::bigint[])) ORDER BY id FOR UPDATE`,
)

const FIND = statement("ticks_find", "SELECT id, position, spec FROM schedules WHERE id = ANY ($1::bigint[])")

const TAKE = statement(
  "ticks_take",
  `WITH taken AS (
     UPDATE schedules SET next_at = $4::timestamptz, last_tick_at = $3::timestamptz
     WHERE id = $1 AND active AND next_at = $2::timestamptz RETURNING workflow_id
   )
   INSERT INTO ticks (workflow_id, schedule, tick_at, run_id) SELECT workflow_id, $5, $3::timestamptz, $6::uuid FROM taken
   ON CONFLICT DO NOTHING RETURNING 1 AS fired`,
)

export const fireTicks = async (tx: Tx, ticks: readonly Tick[]): Promise<{ fired: boolean; run: RunRow | null }[]> => {
  const ids = [anyParam(new Set(ticks.map(({ scheduleId }) => scheduleId)))]
  const locked = tx.run(LOCK, ids)
  const specs = tx.run<{ id: number; position: number; spec: string }>(FIND, ids)
  await locked
  const keys = new Map(
    (await specs).map(({ id, position, spec }) => [id, scheduleText(position, JSON.parse(spec) as ScheduleSpec)]),
  )
  const taken = ticks.map(({ scheduleId, expected, tick, nextAt, run }) =>
    tx.run(TAKE, [scheduleId, expected, tick, nextAt, keys.get(scheduleId) ?? "", run?.id ?? null]),
  )
  const fired: boolean[] = []
  for (const answer of taken) fired.push((await answer).length === 1)
  const runs = ticks.flatMap(({ run }, i) => (fired[i] && run !== null ? [run] : []))
  const made = runs.length === 0 ? [] : await createRuns(tx, runs)
  return ticks.map(({ run }, i) => ({ fired: fired[i]!, run: fired[i] && run !== null ? made.shift()!.run : null }))
}

const ACTIVE_RUNS = statement(
  "schedules_active_runs",
  `SELECT seq FROM runs WHERE schedule_id = $1 AND schedule_id IS NOT NULL AND status IN ('pending', 'running') ORDER BY seq`,
)

export const activeRunsOf = async (session: SqlRunner, scheduleId: number): Promise<RunRow[]> => {
  const seqs = (await session.run<{ seq: number }>(ACTIVE_RUNS, [scheduleId])).map(({ seq }) => seq)
  const runs = await readRuns(session, seqs)
  return seqs.flatMap((seq) => runs.get(seq) ?? [])
}
