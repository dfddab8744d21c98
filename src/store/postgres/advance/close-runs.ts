// The end of a run: its status, its hooks in the same transaction, and the start of runs that waited for its place.

import { closeStatus } from "../../../core/rules/effects.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { deadlineNotifications, endNotifications, type NewNotification } from "../../../core/rules/notifications.ts"
import { hookRows, initialRows } from "../../../core/rules/new-rows.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { taskFailed } from "../../../core/rules/messages.ts"
import type { Advanced, CancelReason } from "../../contract/store.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { addNotices } from "../admin/notifications.ts"
import { insertRows, STAND_IN } from "../runs/insert-rows.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import { resumeParents } from "./waiting.ts"
import type { Workflows } from "../admin/workflows.ts"

/** Over: nothing open; or cancelled before it started. A run that another transaction works on is left to it. */
const OVER = statement(
  "close_over",
  `SELECT seq, id, workflow_id, version_id, priority, private, root_run_id AS "rootRunId", parent_row, schedule_id, cancelling, failed, error FROM runs
   WHERE seq = ANY ($1::bigint[]) AND (status = 'running' AND open_tasks = 0 OR status = 'pending' AND cancelling IS NOT NULL)
   ORDER BY seq FOR UPDATE SKIP LOCKED`,
)

const FIRST_FAILED = statement(
  "close_first_failed",
  `SELECT r.seq, f.node FROM unnest($1::bigint[]) AS r (seq) CROSS JOIN LATERAL (
     SELECT t.node FROM tasks t WHERE t.run_seq = r.seq AND t.status = 'failed' AND t.parent_id IS NULL AND NOT t.hook
     ORDER BY t.finished_at, t.id LIMIT 1
   ) f`,
)

const CLOSE = statement(
  "close",
  `UPDATE runs r SET status = c.status, finished_at = COALESCE($1::timestamptz, now()), error = c.error, hooks_pending = c.hooks,
     cancelling = NULL, paused = false, timeout_at = NULL
   FROM unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) AS c (seq, status, error, hooks) WHERE r.seq = c.seq`,
)

const WAITING = statement(
  "close_waiting",
  `SELECT w.id FROM unnest($1::bigint[]) AS w (id)
   WHERE EXISTS (SELECT 1 FROM runs r WHERE r.workflow_id = w.id AND r.status = 'pending' AND r.cancelling IS NULL)`,
)

interface OverRow {
  seq: number
  id: RunId
  workflow_id: number
  version_id: number
  priority: number
  private: boolean
  rootRunId: RunId | null
  parent_row: number | null
  schedule_id: number | null
  cancelling: CancelReason | null
  failed: number
  error: string | null
}

export interface Closed {
  runs: (Advanced["closed"][number] & { error: string | null })[]
  /** Runs that took their places. */
  started: { seq: number; id: RunId }[]
  /** Hooks and first tasks of those. */
  rows: number
  /** Tasks that waited for these runs were woken. */
  woken: boolean
}

export const closeRuns = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
  seqs: readonly number[],
): Promise<Closed> => {
  const over = await tx.run<OverRow>(OVER, [anyParam(seqs)])
  if (over.length === 0) return { runs: [], started: [], rows: 0, woken: false }
  await workflows.load(over.map((run) => run.version_id))
  const ends = over.map((run) => ({ run, compiled: workflows.now(run.version_id), status: closeStatus(run) }))
  const unexplained = ends.filter(({ run, status }) => status === "failed" && run.error === null)
  const blamed = unexplained.length === 0 ? new Map<number, number>() : await firstFailed(tx, unexplained)

  const closed = ends.map(({ run, compiled, status }) => {
    const node = blamed.get(run.seq)
    const error = run.error ?? (node === undefined ? null : taskFailed(compiled.nodes[node]!.name))
    return { run, status, error, hooks: hookRows(compiled, { ...run, id: STAND_IN }, status) }
  })
  const updated = tx.run(CLOSE, [
    now,
    arrayParam(closed.map(({ run }) => run.seq)),
    arrayParam(closed.map(({ status }) => status)),
    textArrayParam(closed.map(({ error }) => error)),
    arrayParam(closed.map(({ hooks }) => hooks.length)),
  ])
  const parents = over.flatMap((run) => run.parent_row ?? [])
  const woken = pipelined(resumeParents(tx, now, parents))
  const hooked = closed.filter(({ hooks }) => hooks.length > 0)
  const inserted: Promise<unknown>[] = hooked.map(({ run, hooks }) =>
    pipelined(insertRows(tx, [run], run.workflow_id, hooks, true)),
  )
  const owed = ends.map(({ run, compiled, status }) => ({ runId: run.id, notices: endNotifications(compiled, run, status) }))
  inserted.push(pipelined(addNotices(tx, now, owed)))
  // One that is being created waits for the count of those that run: the end of this one must not pass it unseen.
  const awaited = ends.filter(({ run, compiled }) => compiled.maxActiveRuns !== undefined || run.schedule_id !== null)
  if (awaited.length > 0) inserted.push(lockWorkflows(tx, new Set(awaited.map(({ run }) => run.workflow_id))))
  const waiting = tx.run<{ id: number }>(WAITING, [anyParam(new Set(over.map((run) => run.workflow_id)))])
  await updated
  await woken
  await Promise.all(inserted)

  const started = await activate(
    tx,
    now,
    workflows,
    (await waiting).map(({ id }) => id),
  )
  return {
    runs: closed.map(({ run, status, error }) => ({ runSeq: run.seq, runId: run.id, status, error })),
    started: started.runs,
    rows: started.rows + hooked.reduce((n, { hooks }) => n + hooks.length, 0),
    woken: parents.length > 0,
  }
}

const firstFailed = async (tx: SqlRunner, ends: readonly { run: OverRow }[]): Promise<Map<number, number>> => {
  const rows = await tx.run<{ seq: number; node: number }>(FIRST_FAILED, [arrayParam(ends.map(({ run }) => run.seq))])
  return new Map(rows.map(({ seq, node }) => [seq, node]))
}

const LOCK_WORKFLOWS = statement(
  "activate_lock",
  "SELECT id FROM workflows WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE",
)

const RUNNING = statement(
  "activate_running",
  `SELECT w.id, (SELECT count(*) FROM runs r WHERE r.workflow_id = w.id AND r.status = 'running')::int AS running
   FROM unnest($1::bigint[]) AS w (id)`,
)

/**
 * At most as many as one transaction may start; those that may not start yet are found in order. One that queues behind its
 * schedule is passed over while an earlier run of that schedule has not ended.
 */
const OLDEST = statement(
  "activate_oldest",
  `SELECT r.* FROM unnest($1::bigint[]) AS w (id) CROSS JOIN LATERAL (
     SELECT seq, id, workflow_id, version_id, priority, private, root_run_id AS "rootRunId" FROM runs p
     WHERE workflow_id = w.id AND status = 'pending' AND cancelling IS NULL AND (NOT queue_behind OR NOT EXISTS (
       SELECT 1 FROM runs e WHERE e.schedule_id = p.schedule_id AND e.schedule_id IS NOT NULL
         AND e.status IN ('pending', 'running') AND e.seq < p.seq))
     ORDER BY seq LIMIT 100
   ) r ORDER BY r.workflow_id, r.seq`,
)

const START = statement(
  "activate_start",
  `UPDATE runs r SET status = 'running', started_at = COALESCE($1::timestamptz, now()),
     timeout_at = COALESCE($1::timestamptz, now()) + c.timeout * interval '1 millisecond', open_tasks = c.open_tasks, tasks_total = c.total
   FROM unnest($2::bigint[], $3::bigint[], $4::int[], $5::int[]) AS c (seq, timeout, open_tasks, total)
   WHERE r.seq = c.seq AND r.status = 'pending'`,
)

interface PendingRun {
  seq: number
  id: RunId
  workflow_id: number
  version_id: number
  priority: number
  private: boolean
  rootRunId: RunId | null
}

/** Sent at once; in order, so that transactions cannot wait for each other. */
export const lockWorkflows = (tx: SqlRunner, workflowIds: Iterable<number>): Promise<unknown> =>
  tx.run(LOCK_WORKFLOWS, [anyParam(workflowIds)])

/** Starts the oldest waiting runs of workflows while `max_active_runs` and their schedules allow it. Takes the workflows' locks. */
export const activate = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
  workflowIds: readonly number[],
): Promise<{ runs: { seq: number; id: RunId }[]; rows: number }> => {
  if (workflowIds.length === 0) return { runs: [], rows: 0 }
  const ids = [anyParam(new Set(workflowIds))]
  const locked = lockWorkflows(tx, new Set(workflowIds))
  const counted = tx.run<{ id: number; running: number }>(RUNNING, ids)
  const oldest = tx.run<PendingRun>(OLDEST, ids)
  await locked
  const running = new Map((await counted).map((row) => [row.id, row.running]))
  const waiting = await oldest
  await workflows.load(waiting.map((run) => run.version_id))

  const full = new Set<number>()
  const chosen = waiting.filter((run) => {
    const max = workflows.now(run.version_id).maxActiveRuns ?? Number.POSITIVE_INFINITY
    const active = running.get(run.workflow_id) ?? 0
    if (full.has(run.workflow_id) || active >= max) {
      full.add(run.workflow_id)
      return false
    }
    running.set(run.workflow_id, active + 1)
    return true
  })
  if (chosen.length === 0) return { runs: [], rows: 0 }
  return { runs: chosen, rows: await startRuns(tx, now, workflows, chosen) }
}

/** Pending runs get their rows; returns how many. */
export const startRuns = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
  runs: readonly PendingRun[],
): Promise<number> => {
  const planned = runs.map((run) => ({ run, ...plan(workflows.now(run.version_id), run) }))
  const started = tx.run(START, [
    now,
    arrayParam(planned.map(({ run }) => run.seq)),
    arrayParam(planned.map(({ timeoutMs }) => timeoutMs)),
    arrayParam(planned.map(({ rows }) => rows.length)),
    arrayParam(planned.map(({ tasks }) => tasks)),
  ])
  const inserted = planned.map(({ run, rows }) => pipelined(insertRows(tx, [run], run.workflow_id, rows, false)))
  const owed = planned.map(({ run, ...rest }) => ({ runId: run.id, notices: rest.notices, afterMs: rest.deadlineMs }))
  inserted.push(pipelined(addNotices(tx, now, owed)))
  await started
  await Promise.all(inserted)
  return planned.reduce((n, { rows }) => n + rows.length, 0)
}

interface Plan {
  rows: ReturnType<typeof initialRows>
  tasks: number
  timeoutMs: number | null
  deadlineMs: number | undefined
  notices: NewNotification[]
}

/** What a run begins with. */
export const plan = (compiled: CompiledWorkflow, run: { priority: number; private: boolean }): Plan => {
  const rows = initialRows(compiled, { id: STAND_IN, private: run.private, priority: run.priority })
  return {
    rows,
    tasks: rows.filter((row) => row.kind === "task").length,
    timeoutMs: compiled.timeoutMs ?? null,
    deadlineMs: compiled.deadlineMs,
    notices: deadlineNotifications(compiled, run),
  }
}
