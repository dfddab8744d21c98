// New runs. Calls of one turn of the event loop share a transaction. A run starts at once, unless its workflow has
// `max_active_runs` or it queues behind its schedule: then it is inserted pending, and the oldest pending ones that may start
// do.

import type { RunId } from "../../../core/model/ids.ts"
import { startsPending } from "../../../core/rules/activation.ts"
import { runPriority } from "../../../core/rules/new-rows.ts"
import type { NewRun, RunRow, StoreEvent } from "../../contract/store.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { activate, lockWorkflows, planRun } from "../advance/close-runs.ts"
import { logEvents } from "../advance/event-log.ts"
import { addNotifications } from "../admin/notifications.ts"
import { insertRows } from "./insert-rows.ts"
import { readRuns } from "./run-reads.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Tx } from "../tx.ts"

const INSERT = statement(
  "create_runs",
  `INSERT INTO runs (id, workflow_id, version_id, status, trigger, params, priority, logical_date, idempotency_key, private,
     working_dir, timezone, schedule_id, queue_behind, created_at, started_at, timeout_at, open_tasks, tasks_total, parent_row, parent_run,
     parent_task, root_run_id, depth)
   SELECT id, workflow_id, version_id, CASE WHEN starts_pending THEN 'pending' ELSE 'running' END, trigger, params, priority, logical_date,
     idempotency_key, private, working_dir, timezone, schedule_id, behind, COALESCE(:now::timestamptz, now()),
     CASE WHEN NOT starts_pending THEN COALESCE(:now::timestamptz, now()) END,
     COALESCE(:now::timestamptz, now()) + timeout * interval '1 millisecond', open_tasks, total, parent_row,
     parent_run, parent_task, root_run_id, depth
   FROM unnest(:ids::uuid[], :workflowIds::bigint[], :versionIds::bigint[], :startsPendings::boolean[], :triggers::text[], :params::text[], :priorities::smallint[], :logicalDates::text[],
     :idempotencyKeys::text[], :privates::boolean[], :workingDirs::text[], :timezones::text[], :scheduleIds::bigint[], :behinds::boolean[], :timeouts::bigint[], :openTasks::int[],
     :totals::int[], :parentRows::bigint[], :parentRuns::uuid[], :parentTasks::text[], :rootRunIds::uuid[], :depths::int[]) WITH ORDINALITY
   AS c (id, workflow_id, version_id, starts_pending, trigger, params, priority, logical_date, idempotency_key, private, working_dir,
     timezone, schedule_id, behind, timeout, open_tasks, total, parent_row, parent_run, parent_task, root_run_id, depth, n) ORDER BY n
   ON CONFLICT DO NOTHING
   RETURNING seq, id`,
)

const BY_KEY = statement(
  "create_by_key",
  `SELECT r.seq, c.id AS asked FROM unnest(:ids::uuid[], :workflowIds::bigint[], :keys::text[]) AS c (id, workflow_id, key)
   JOIN runs r ON r.workflow_id = c.workflow_id AND r.idempotency_key = c.key`,
)

export const createRuns = async (tx: Tx, runs: readonly NewRun[]): Promise<{ run: RunRow; created: boolean }[]> => {
  const { workflows, now } = tx
  await workflows.load(runs.map((run) => run.versionId))
  const planned = runs.map((run) => {
    const compiled = workflows.now(run.versionId)
    const priority = runPriority(compiled, run.priority)
    const waits = startsPending(compiled, run)
    return { run, priority, waits, ...planRun(compiled, { priority, private: run.private }) }
  })
  const waiting = [...new Set(planned.filter(({ waits }) => waits).map(({ run }) => run.workflowId))]
  if (waiting.length > 0) await lockWorkflows(tx, waiting)
  const inserted = await insertRuns(tx, now, planned)
  const seqs = new Map(inserted.map(({ seq, id }) => [id, seq]))

  const begun = planned.filter(({ run, waits }) => !waits && seqs.has(run.id))
  const shapes = Map.groupBy(begun, ({ run, priority }) => `${run.versionId}/${priority}/${run.private}`)
  const rows = [...shapes.values()].map((shape) => {
    const members = shape.map(({ run }) => ({ seq: seqs.get(run.id)!, id: run.id, rootRunId: run.parent?.rootRunId ?? null }))
    return pipelined(insertRows(tx, members, shape[0]!.run.workflowId, shape[0]!.rows, false))
  })
  const notified = begun.map(({ run, notifications, deadlineMs }) => ({ runId: run.id, notifications, afterMs: deadlineMs }))
  rows.push(pipelined(addNotifications(tx, notified)))
  await Promise.all(rows)
  const activated = await activate(tx, waiting)

  const known = runs.filter((run) => !seqs.has(run.id))
  const first = new Map(known.length === 0 ? [] : await findByKey(tx, known))
  const found = await readRuns(tx, [...seqs.values(), ...first.values()])
  const made = runs.map((run) => {
    const seq = seqs.get(run.id)
    return { run: found.get(seq ?? first.get(run.id)!)!, created: seq !== undefined }
  })
  await logEvents(tx, tellCreated(made, activated.runs))
  return made
}

/** What was made, and runs from before that were started with it. */
const tellCreated = (made: readonly { run: RunRow; created: boolean }[], started: readonly { id: RunId }[]): StoreEvent[] => {
  const fresh = made.filter(({ created }) => created).map(({ run }) => run)
  const known = new Set(fresh.map(({ id }) => id))
  const at = fresh[0]?.createdAt
  const others = at === undefined ? [] : started.filter(({ id }) => !known.has(id))
  return [
    ...others.map(({ id }): StoreEvent => ({ type: "run", runId: id, status: "running", at: at! })),
    ...fresh.map(({ id, status, createdAt }): StoreEvent => ({ type: "run", runId: id, status, at: createdAt })),
  ]
}

type Planned = { run: NewRun; priority: number; waits: boolean } & ReturnType<typeof planRun>

const insertRuns = (tx: SqlRunner, now: string | null, planned: readonly Planned[]): Promise<{ seq: number; id: string }[]> =>
  tx.run(INSERT, {
    now,
    ids: arrayParam(planned.map(({ run }) => run.id)),
    workflowIds: arrayParam(planned.map(({ run }) => run.workflowId)),
    versionIds: arrayParam(planned.map(({ run }) => run.versionId)),
    startsPendings: arrayParam(planned.map(({ waits }) => waits)),
    triggers: textArrayParam(planned.map(({ run }) => run.trigger)),
    params: textArrayParam(planned.map(({ run }) => JSON.stringify(run.params))),
    priorities: arrayParam(planned.map(({ priority }) => priority)),
    logicalDates: textArrayParam(planned.map(({ run }) => run.logicalDate)),
    idempotencyKeys: textArrayParam(planned.map(({ run }) => run.idempotencyKey)),
    privates: arrayParam(planned.map(({ run }) => run.private)),
    workingDirs: textArrayParam(planned.map(({ run }) => run.workingDir)),
    timeouts: arrayParam(planned.map(({ waits, timeoutMs }) => (waits ? null : timeoutMs))),
    openTasks: arrayParam(planned.map(({ waits, rows }) => (waits ? 0 : rows.length))),
    totals: arrayParam(planned.map(({ waits, tasks }) => (waits ? 0 : tasks))),
    timezones: textArrayParam(planned.map(({ run }) => run.timezone ?? null)),
    scheduleIds: arrayParam(planned.map(({ run }) => run.scheduleId ?? null)),
    behinds: arrayParam(planned.map(({ run }) => run.waitForSchedule === true)),
    parentRows: arrayParam(planned.map(({ run }) => run.parent?.row ?? null)),
    parentRuns: arrayParam(planned.map(({ run }) => run.parent?.runId ?? null)),
    parentTasks: textArrayParam(planned.map(({ run }) => run.parent?.task ?? null)),
    rootRunIds: arrayParam(planned.map(({ run }) => run.parent?.rootRunId ?? null)),
    depths: arrayParam(planned.map(({ run }) => run.parent?.depth ?? 0)),
  })

const findByKey = async (tx: SqlRunner, runs: readonly NewRun[]): Promise<[string, number][]> => {
  const rows = await tx.run<{ seq: number; asked: string }>(BY_KEY, {
    ids: arrayParam(runs.map(({ id }) => id)),
    workflowIds: arrayParam(runs.map(({ workflowId }) => workflowId)),
    keys: textArrayParam(runs.map(({ idempotencyKey }) => idempotencyKey)),
  })
  return rows.map(({ seq, asked }) => [asked, seq])
}
