// Creates runs. Concurrent calls share a transaction. A run is started in the same transaction, unless `max_active_runs` of its
// workflow or an earlier run of its schedule holds it back.

import type { RunId } from "../../../core/model/ids.ts"
import { mustWaitToStart } from "../../../core/rules/runs/start.ts"
import { runPriority } from "../../../core/rules/runs/new-rows.ts"
import type { NewRun, RunRow, StoreEvent } from "../../contract/store.ts"
import { startPendingRuns, lockWorkflows, planRun } from "../advance/close-runs.ts"
import { addNotifications } from "../admin/notifications.ts"
import { noteCalls } from "../functions/functions.ts"
import { insertRows } from "./insert-rows.ts"
import { readRuns } from "./run-reads.ts"
import { pipelined, type SqlRunner, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { NOW } from "../connection/store-clock.ts"

/**
 * Numbers the runs that are new by their ids and idempotency keys. The rows of `run_numbers` stay locked until the commit: runs of one
 * workflow are created one transaction after the other. A run that another transaction creates at the same time leaves a gap.
 */
const INSERT = statement(
  "create_runs",
  `WITH c AS (
     SELECT * FROM unnest(:ids::uuid[], :workflowIds::bigint[], :versionIds::bigint[], :pendingFlags::boolean[], :triggers::text[],
       :params::text[], :priorities::smallint[], :logicalDates::text[], :idempotencyKeys::text[], :privateFlags::boolean[],
       :workingDirs::text[], :timezones::text[], :scheduleIds::bigint[], :waitForScheduleFlags::boolean[], :timeouts::bigint[],
       :openTasks::int[], :totals::int[], :parentRows::bigint[], :parentRuns::uuid[], :parentTasks::text[], :rootRunIds::uuid[],
       :depths::int[], :creators::text[], :causes::text[],
       :previousRuns::uuid[]) WITH ORDINALITY
     AS c (id, workflow_id, version_id, starts_pending, trigger,
       params, priority, logical_date, idempotency_key, private,
       working_dir, timezone, schedule_id, wait_for_schedule, timeout,
       open_tasks, total, parent_row, parent_run, parent_task, root_run_id,
       depth, created_by, cause,
       previous_run, position)
     WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = c.id)
       AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.workflow_id = c.workflow_id AND r.idempotency_key = c.idempotency_key)
   ), counts AS (
     SELECT workflow_id, count(*)::int AS count FROM c GROUP BY workflow_id
   ), numbers AS (
     INSERT INTO run_numbers AS n (workflow_id, last) SELECT workflow_id, count FROM counts ORDER BY workflow_id
     ON CONFLICT (workflow_id) DO UPDATE SET last = n.last + excluded.last RETURNING workflow_id, last
   )
   INSERT INTO runs (id, workflow_id, version_id, status, trigger, params, priority, logical_date, idempotency_key, private,
     working_dir, timezone, schedule_id, queue_behind, created_at, started_at, timeout_at, open_tasks, tasks_total, parent_row, parent_run,
     parent_task, root_run_id, depth, created_by, cause, previous_run,
     number)
   SELECT id, c.workflow_id, version_id, CASE WHEN starts_pending THEN 'pending' ELSE 'running' END, trigger, params, priority, logical_date,
     idempotency_key, private, working_dir, timezone, schedule_id, wait_for_schedule, ${NOW},
     CASE WHEN NOT starts_pending THEN ${NOW} END,
     ${NOW} + timeout * interval '1 millisecond', open_tasks, total, parent_row,
     parent_run, parent_task, root_run_id, depth, created_by, cause, previous_run,
     last - count + row_number() OVER (PARTITION BY c.workflow_id ORDER BY position)
   FROM c JOIN counts ON counts.workflow_id = c.workflow_id JOIN numbers ON numbers.workflow_id = c.workflow_id ORDER BY position
   ON CONFLICT DO NOTHING
   RETURNING seq, id`,
)

const FIND_EXISTING = statement(
  "create_find_existing",
  `SELECT r.seq, r.id, c.id AS requested FROM unnest(:ids::uuid[], :workflowIds::bigint[], :keys::text[]) AS c (id, workflow_id, key)
   JOIN runs r ON r.workflow_id = c.workflow_id AND r.idempotency_key = c.key
   UNION SELECT r.seq, r.id, c.id FROM unnest(:ids) AS c (id) JOIN runs r ON r.id = c.id`,
)

const SET_PREVIOUS = statement(
  "create_set_previous",
  `UPDATE runs r SET previous_run = c.previous FROM unnest(:runs::bigint[], :previousRuns::uuid[]) AS c (seq, previous) WHERE r.seq = c.seq`,
)

export const createRuns = async (tx: Tx, runs: readonly NewRun[]): Promise<{ run: RunRow; created: boolean }[]> => {
  const planned = await planRuns(tx, runs)
  const held = planned.filter((plan) => plan.mustWait).map(({ run }) => run)
  if (held.length > 0) await lockWorkflows(tx, new Set(held.map(({ workflowId }) => workflowId)))
  // Runs that are not inserted existed before.
  const newSeqs = new Map((await insertRuns(tx, planned)).map(({ seq, id }) => [id, seq]))
  const immediate = planned.filter((plan) => !plan.mustWait && newSeqs.has(plan.run.id))
  const rowsInserted = pipelined(insertRowsOf(tx, immediate, newSeqs))
  const repeated = runs.filter((run) => !newSeqs.has(run.id))
  const existing = new Map(repeated.length === 0 ? [] : await findExisting(tx, repeated))
  await followExisting(tx, held, newSeqs, existing)
  await noteCalls(
    tx,
    runs.flatMap(({ id, parent }) =>
      parent?.step === undefined || !newSeqs.has(id) ? [] : { ...parent.step, row: parent.row },
    ),
  )
  const started = await startPendingRuns(
    tx,
    held.filter(({ id }) => newSeqs.has(id)).map(({ workflowId }) => workflowId),
  )

  const found = await readRuns(tx, [...newSeqs.values(), ...[...existing.values()].map(({ seq }) => seq)])
  await rowsInserted
  // A run with the caller's id is the caller's, also when an earlier call has inserted it, whose reply was lost.
  const results = runs.map((run) => {
    const row = found.get(newSeqs.get(run.id) ?? existing.get(run.id)!.seq)!
    return { run: row, created: row.id === run.id }
  })
  const newRuns = results.flatMap(({ run }) => (newSeqs.has(run.id) ? [run] : []))
  tx.events.push(...createdEvents(newRuns, started.runs))
  return results
}

type RunPlan = { run: NewRun; priority: number; mustWait: boolean } & ReturnType<typeof planRun>

const planRuns = async (tx: Tx, runs: readonly NewRun[]): Promise<RunPlan[]> => {
  await tx.workflows.load(runs.map((run) => run.versionId))
  return runs.map((run) => {
    const compiled = tx.workflows.getLoaded(run.versionId)
    const priority = runPriority(compiled, run.priority)
    const plan = planRun(compiled, { priority, private: run.private })
    return { run, priority, mustWait: mustWaitToStart(compiled, run), ...plan }
  })
}

/**
 * Inserts the rows and notifications of started runs. Runs with the same rows share a statement. Sends its statements before it
 * returns.
 */
const insertRowsOf = async (tx: Tx, immediate: readonly RunPlan[], seqs: ReadonlyMap<string, number>): Promise<void> => {
  const sameRows = Map.groupBy(immediate, ({ run, priority }) => `${run.versionId}/${priority}/${run.private}`)
  const inserted = [...sameRows.values()].map((plans) => {
    const members = plans.map(({ run }) => ({ seq: seqs.get(run.id)!, id: run.id, rootRunId: run.parent?.rootRunId ?? null }))
    return insertRows(tx, members, plans[0]!.run.workflowId, plans[0]!.rows, false)
  })
  const notifications = immediate.map((plan) => ({ runId: plan.run.id, notifications: plan.notifications }))
  await Promise.all([...inserted, addNotifications(tx, notifications)].map(pipelined))
}

/** Events of the created runs, and of older pending runs that these started. */
const createdEvents = (created: readonly RunRow[], started: readonly { id: RunId }[]): StoreEvent[] => {
  const createdIds = new Set(created.map(({ id }) => id))
  const others = started.filter(({ id }) => !createdIds.has(id))
  return [
    ...others.map(({ id }): StoreEvent => ({ type: "run", runId: id, status: "running", at: created[0]!.createdAt })),
    ...created.map(({ id, status, createdAt }): StoreEvent => ({ type: "run", runId: id, status, at: createdAt })),
  ]
}

const insertRuns = (tx: SqlRunner, planned: readonly RunPlan[]): Promise<{ seq: number; id: string }[]> =>
  tx.run(INSERT, {
    ids: planned.map(({ run }) => run.id),
    workflowIds: planned.map(({ run }) => run.workflowId),
    versionIds: planned.map(({ run }) => run.versionId),
    pendingFlags: planned.map((plan) => plan.mustWait),
    triggers: planned.map(({ run }) => run.trigger),
    params: planned.map(({ run }) => JSON.stringify(run.params)),
    priorities: planned.map(({ priority }) => priority),
    logicalDates: planned.map(({ run }) => run.logicalDate),
    idempotencyKeys: planned.map(({ run }) => run.idempotencyKey),
    privateFlags: planned.map(({ run }) => run.private),
    workingDirs: planned.map(({ run }) => run.workingDir),
    timeouts: planned.map((plan) => (plan.mustWait ? null : plan.timeoutMs)),
    openTasks: planned.map((plan) => (plan.mustWait ? 0 : plan.rows.length)),
    totals: planned.map((plan) => (plan.mustWait ? 0 : plan.tasks)),
    timezones: planned.map(({ run }) => run.timezone ?? null),
    scheduleIds: planned.map(({ run }) => run.scheduleId ?? null),
    waitForScheduleFlags: planned.map(({ run }) => run.waitForSchedule === true),
    parentRows: planned.map(({ run }) => run.parent?.row ?? null),
    parentRuns: planned.map(({ run }) => run.parent?.runId ?? null),
    parentTasks: planned.map(({ run }) => run.parent?.task ?? null),
    rootRunIds: planned.map(({ run }) => run.parent?.rootRunId ?? null),
    depths: planned.map(({ run }) => run.parent?.depth ?? 0),
    creators: planned.map(({ run }) => run.createdBy ?? null),
    causes: planned.map(({ run }) => (run.cause === undefined ? null : JSON.stringify(run.cause))),
    previousRuns: planned.map(({ run }) => run.previousRun ?? null),
  })

interface ExistingRun {
  seq: number
  id: RunId
}

/** Finds the runs that have the idempotency keys or ids of these; returns the requested id of each. */
const findExisting = async (tx: SqlRunner, runs: readonly NewRun[]): Promise<[RunId, ExistingRun][]> => {
  const rows = await tx.run<ExistingRun & { requested: RunId }>(FIND_EXISTING, {
    ids: runs.map(({ id }) => id),
    workflowIds: runs.map(({ workflowId }) => workflowId),
    keys: runs.map(({ idempotencyKey }) => idempotencyKey),
  })
  return rows.map(({ requested, ...run }) => [requested, run])
}

/** Makes new runs wait for existing ones in place of those of the call that were not inserted. */
const followExisting = async (
  tx: SqlRunner,
  runs: readonly NewRun[],
  newSeqs: ReadonlyMap<string, number>,
  existing: ReadonlyMap<RunId, ExistingRun>,
): Promise<void> => {
  const followers = runs.flatMap(({ id, previousRun }) => {
    const run = newSeqs.get(id)
    const previous = previousRun === undefined ? undefined : existing.get(previousRun)
    return run === undefined || previous === undefined ? [] : { run, previous: previous.id }
  })
  if (followers.length === 0) return
  await tx.run(SET_PREVIOUS, {
    runs: followers.map(({ run }) => run),
    previousRuns: followers.map(({ previous }) => previous),
  })
}
