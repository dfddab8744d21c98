// Closes runs in which nothing is open: sets the status, adds the hooks, and starts pending runs that waited for the place.

import type { RunId } from "../../../core/model/ids.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { planStart, type RunStart, runsToStart } from "../../../core/rules/runs/start.ts"
import { closeStatus, nodesAllowedToFail } from "../../../core/rules/changes/effects.ts"
import { hookRows } from "../../../core/rules/runs/new-rows.ts"
import { endNotifications } from "../../../core/rules/runs/notifications.ts"
import { taskFailed } from "../../../core/rules/messages.ts"
import type { RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { MAX_STARTS } from "../../shared/bounds.ts"
import type { AdvanceResult, CancelReason } from "../../contract/store.ts"
import { addNotifications } from "../admin/notifications.ts"
import { arrayParam } from "../connection/array-params.ts"
import { pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { insertRows, RUN_ID_PLACEHOLDER } from "../runs/insert-rows.ts"
import { reopenRun } from "../runs/reopen.ts"
import { recordTriggerSuccesses } from "./record-trigger-successes.ts"
import { requestResume } from "./waiting.ts"

/** Columns of a run that starts or closes, for `StartableRun`. */
export const STARTABLE_RUN = 'seq, id, workflow_id, version_id, priority, private, root_run_id AS "rootRunId"'

export interface StartableRun {
  seq: number
  id: RunId
  workflow_id: number
  version_id: number
  priority: number
  private: boolean
  rootRunId: RunId | null
}

/** Runs without open tasks, or cancelled before their start. Skips runs that another transaction has locked: it closes them. */
const CLOSABLE = statement(
  "close_closable",
  `SELECT ${STARTABLE_RUN}, parent_row, schedule_id, cancelling, failed, error FROM runs
   WHERE seq = ANY (:runs::bigint[]) AND (status = 'running' AND open_tasks = 0 OR status = 'pending' AND cancelling IS NOT NULL)
   ORDER BY seq FOR UPDATE SKIP LOCKED`,
)

const FIRST_FAILED = statement(
  "close_first_failed",
  `SELECT r.seq, f.node FROM unnest(:runs::bigint[], :allowed::text[]) AS r (seq, allowed) CROSS JOIN LATERAL (
     SELECT t.node FROM tasks t
     WHERE t.run_seq = r.seq AND t.status = 'failed' AND t.parent_id IS NULL AND NOT t.hook AND (t.node = ANY (r.allowed::int[])) IS NOT TRUE
     ORDER BY t.finished_at, t.id LIMIT 1
   ) f`,
)

const CLOSE = statement(
  "close",
  `UPDATE runs r SET status = c.status, finished_at = ${NOW}, error = c.error, hooks_pending = c.hooks,
     cancelling = NULL, paused = false, timeout_at = NULL, retry_plan = NULL
   FROM unnest(:runs::bigint[], :statuses::text[], :errors::text[], :hooks::int[]) AS c (seq, status, error, hooks) WHERE r.seq = c.seq`,
)

const WITH_PENDING_RUNS = statement(
  "close_with_pending_runs",
  `SELECT w.id FROM unnest(:workflows::bigint[]) AS w (id)
   WHERE EXISTS (SELECT 1 FROM runs r WHERE r.workflow_id = w.id AND r.status = 'pending' AND r.cancelling IS NULL)`,
)

interface ClosableRun extends StartableRun {
  parent_row: number | null
  schedule_id: number | null
  cancelling: CancelReason | null
  failed: number
  error: string | null
}

export interface CloseResult {
  runs: (AdvanceResult["closed"][number] & { error: string | null })[]
  /** Pending runs that were started. */
  started: { seq: number; id: RunId }[]
  /** Number of rows that were inserted: hooks, and first tasks of started runs. */
  rows: number
  /** Whether tasks that waited for these runs were resumed. */
  resumed: boolean
}

export const NOTHING_CLOSED: CloseResult = { runs: [], started: [], rows: 0, resumed: false }

/** Closes those of the runs that have no open tasks. */
export const closeRuns = async (tx: Tx, seqs: readonly number[]): Promise<CloseResult> => {
  if (seqs.length === 0) return NOTHING_CLOSED
  const closable = await tx.run<ClosableRun>(CLOSABLE, { runs: seqs })
  if (closable.length === 0) return NOTHING_CLOSED
  await tx.workflows.load(closable.map((run) => run.version_id))
  const closes = await planCloses(tx, closable)
  const written = pipelined(writeCloses(tx, closes))
  const locked = pipelined(lockCountingWorkflows(tx, closes))
  const pending = tx.run<{ id: number }>(WITH_PENDING_RUNS, {
    workflows: [...new Set(closable.map((run) => run.workflow_id))],
  })
  await written
  await locked
  const started = await startPendingRuns(
    tx,
    (await pending).map(({ id }) => id),
  )
  return {
    runs: closes.map(({ run, status, error }) => ({ runSeq: run.seq, runId: run.id, status, error })),
    started: started.runs,
    rows: started.rows + closes.reduce((n, { hooks }) => n + hooks.length, 0),
    resumed: closable.some((run) => run.parent_row !== null),
  }
}

interface Close {
  run: ClosableRun
  compiled: CompiledWorkflow
  status: ReturnType<typeof closeStatus>
  error: string | null
  hooks: ReturnType<typeof hookRows>
}

/** Plans the status, the error and the hooks of each run. A failed run without an error names its first failed task. */
const planCloses = async (tx: Tx, closable: readonly ClosableRun[]): Promise<Close[]> => {
  const runs = closable.map((run) => ({ run, compiled: tx.workflows.getLoaded(run.version_id), status: closeStatus(run) }))
  const unexplained = runs.filter(({ run, status }) => status === "failed" && run.error === null)
  const failed = await firstFailed(tx, unexplained)
  return runs.map(({ run, compiled, status }) => {
    const node = failed.get(run.seq)
    const error = run.error ?? (node === undefined ? null : taskFailed(compiled.nodes[node]!.name))
    return { run, compiled, status, error, hooks: hookRows(compiled, { ...run, id: RUN_ID_PLACEHOLDER }, status) }
  })
}

/** Returns the node whose failure failed the run first, by run. */
const firstFailed = async (
  tx: Tx,
  runs: readonly { run: ClosableRun; compiled: CompiledWorkflow }[],
): Promise<Map<number, number>> => {
  if (runs.length === 0) return new Map()
  const rows = await tx.run<{ seq: number; node: number }>(FIRST_FAILED, {
    runs: runs.map(({ run }) => run.seq),
    allowed: runs.map(({ compiled }) => arrayParam(nodesAllowedToFail(compiled))),
  })
  return new Map(rows.map(({ seq, node }) => [seq, node]))
}

/**
 * Closes the runs, resumes the tasks that waited for them, and adds hooks, notifications and what triggers other workflows. Sends its
 * statements before its first await.
 */
const writeCloses = async (tx: Tx, closes: readonly Close[]): Promise<void> => {
  const closed = tx.run(CLOSE, {
    runs: closes.map(({ run }) => run.seq),
    statuses: closes.map(({ status }) => status),
    errors: closes.map(({ error }) => error),
    hooks: closes.map(({ hooks }) => hooks.length),
  })
  const parents = closes.flatMap(({ run }) => run.parent_row ?? [])
  const resumed = pipelined(requestResume(tx, parents))
  const inserted = [
    ...closes.map(({ run, hooks }) => insertRows(tx, [run], run.workflow_id, hooks, true)),
    addNotifications(
      tx,
      closes.map(({ run, compiled, status }) => ({ runId: run.id, notifications: endNotifications(compiled, run, status) })),
    ),
    recordTriggerSuccesses(
      tx,
      closes.flatMap(({ run, status }) => (status === "success" && !run.private ? [run.seq] : [])),
    ),
  ].map(pipelined)
  await closed
  await resumed
  await Promise.all(inserted)
}

/** Locks the workflows that bound their active runs, so that a concurrent `createRuns` counts these runs as closed. */
const lockCountingWorkflows = async (tx: Tx, closes: readonly Close[]): Promise<void> => {
  const counted = closes.filter(({ run, compiled }) => compiled.maxActiveRuns !== undefined || run.schedule_id !== null)
  if (counted.length > 0) await lockWorkflows(tx, new Set(counted.map(({ run }) => run.workflow_id)))
}

const LOCK_WORKFLOWS = statement(
  "start_runs_lock",
  "SELECT id FROM workflows WHERE id = ANY (:workflows::bigint[]) ORDER BY id FOR UPDATE",
)

const COUNT_RUNNING = statement(
  "start_runs_count_running",
  `SELECT w.id, (SELECT count(*) FROM runs r WHERE r.workflow_id = w.id AND r.status = 'running')::int AS running
   FROM unnest(:workflows::bigint[]) AS w (id)`,
)

/** Pending runs, oldest first, except those that wait for an earlier run of their schedule, or for its success. */
const OLDEST_PENDING = statement(
  "start_runs_oldest",
  `SELECT r.* FROM unnest(:workflows::bigint[]) AS w (id) CROSS JOIN LATERAL (
     SELECT ${STARTABLE_RUN}, retry_plan AS plan FROM runs pending
     WHERE workflow_id = w.id AND status = 'pending' AND cancelling IS NULL AND (NOT queue_behind OR NOT EXISTS (
       SELECT 1 FROM runs earlier WHERE earlier.schedule_id = pending.schedule_id AND earlier.schedule_id IS NOT NULL
         AND earlier.status IN ('pending', 'running') AND earlier.seq < pending.seq))
       AND (previous_run IS NULL OR retry_plan IS NOT NULL OR NOT EXISTS (
         SELECT 1 FROM runs previous WHERE previous.id = pending.previous_run AND previous.status <> 'success'))
     ORDER BY seq LIMIT ${MAX_STARTS}
   ) r ORDER BY r.workflow_id, r.seq`,
)

const START = statement(
  "start_runs",
  `UPDATE runs r SET status = 'running', started_at = ${NOW}, timeout_at = ${NOW} + c.timeout * interval '1 millisecond',
     open_tasks = c.open_tasks, tasks_total = c.total
   FROM unnest(:runs::bigint[], :timeouts::bigint[], :openTasks::int[], :totals::int[]) AS c (seq, timeout, open_tasks, total)
   WHERE r.seq = c.seq AND r.status = 'pending'`,
)

/** Locks workflows in order of their ids to avoid deadlocks. Sends its statement before it returns. */
export const lockWorkflows = (tx: Tx, workflows: Iterable<number>): Promise<unknown> =>
  tx.run(LOCK_WORKFLOWS, { workflows: [...workflows] })

interface PendingRun extends StartableRun {
  /** The resets of the retry that the run waits for, as JSON. */
  plan: string | null
}

export interface StartedRuns {
  runs: { seq: number; id: RunId }[]
  /** Number of their task rows, at least. */
  rows: number
}

/** Locks the workflows, and starts their oldest pending runs while `max_active_runs` and their schedules allow it. */
export const startPendingRuns = async (tx: Tx, workflowIds: readonly number[]): Promise<StartedRuns> => {
  const started: StartedRuns = { runs: [], rows: 0 }
  if (workflowIds.length === 0) return started
  await lockWorkflows(tx, new Set(workflowIds))
  for (let workflows = [...new Set(workflowIds)]; workflows.length > 0;) {
    const starting = await chooseRuns(tx, workflows)
    started.rows += await startRuns(
      tx,
      starting.filter(({ plan }) => plan === null),
    )
    for (const run of starting) {
      if (run.plan === null) continue
      const nodes = JSON.parse(run.plan) as RetryReset["rows"]
      await reopenRun(tx, run, nodes)
      started.rows += nodes.length
    }
    started.runs.push(...starting)
    const counts = Map.groupBy(starting, ({ workflow_id }) => workflow_id)
    workflows = workflows.filter((id) => counts.get(id)?.length === MAX_STARTS)
  }
  return started
}

/** Returns pending runs that may start, at most MAX_STARTS of each workflow. */
const chooseRuns = async (tx: Tx, workflows: readonly number[]): Promise<PendingRun[]> => {
  const counted = pipelined(tx.run<{ id: number; running: number }>(COUNT_RUNNING, { workflows }))
  const pending = await tx.run<PendingRun>(OLDEST_PENDING, { workflows })
  const running = new Map((await counted).map((row) => [row.id, row.running]))
  await tx.workflows.load(pending.map((run) => run.version_id))
  const limited = pending.map((run) => {
    const { maxActiveRuns } = tx.workflows.getLoaded(run.version_id)
    return { ...run, workflowId: run.workflow_id, maxActiveRuns }
  })
  return runsToStart(limited, running)
}

/** Starts pending runs and inserts their rows; returns how many. */
export const startRuns = async (tx: Tx, runs: readonly StartableRun[]): Promise<number> => {
  if (runs.length === 0) return 0
  const planned = runs.map((run) => ({ run, ...planRun(tx.workflows.getLoaded(run.version_id), run) }))
  const started = tx.run(START, {
    runs: planned.map(({ run }) => run.seq),
    timeouts: planned.map(({ timeoutMs }) => timeoutMs),
    openTasks: planned.map(({ rows }) => rows.length),
    totals: planned.map(({ tasks }) => tasks),
  })
  const inserted = [
    ...planned.map(({ run, rows }) => insertRows(tx, [run], run.workflow_id, rows, false)),
    addNotifications(
      tx,
      planned.map(({ run, notifications }) => ({ runId: run.id, notifications })),
    ),
  ].map(pipelined)
  await started
  await Promise.all(inserted)
  return planned.reduce((n, { rows }) => n + rows.length, 0)
}

/** Plans the start of a run. Its rows contain RUN_ID_PLACEHOLDER, which `insertRows` replaces by the ids of runs. */
export const planRun = (compiled: CompiledWorkflow, run: { priority: number; private: boolean }): RunStart =>
  planStart(compiled, { id: RUN_ID_PLACEHOLDER, private: run.private, priority: run.priority })
