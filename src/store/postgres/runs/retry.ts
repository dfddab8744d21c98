// Retries a finished run: it is pending with the plan of its retry, and starts at once unless `max_active_runs` holds it back.

import type { RunId } from "../../../core/model/ids.ts"
import { mustWaitToStart } from "../../../core/rules/runs/start.ts"
import type { RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { startPendingRuns, STARTABLE_RUN, type StartableRun, startRuns } from "../advance/close-runs.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { reopenRun } from "./reopen.ts"

const FINISHED = statement(
  "retry_finished",
  `SELECT ${STARTABLE_RUN} FROM runs
   WHERE id = :runId::uuid AND finished_at IS NOT NULL AND hooks_pending = 0 AND NOT removing
     AND finished_at = COALESCE(:endedAt::timestamptz, finished_at)
   FOR UPDATE`,
)

const QUEUE = statement(
  "retry_queue",
  `UPDATE runs SET status = 'pending', cancelling = NULL, paused = false, finished_at = NULL, error = NULL, open_tasks = 0,
     timeout_at = NULL, retry_plan = :plan,
     idle_ms = idle_ms + CASE WHEN started_at IS NULL THEN 0
       ELSE GREATEST(0, round(EXTRACT(epoch FROM ${NOW} - finished_at) * 1000)::bigint) END
   WHERE seq = :run RETURNING ${NOW}::timestamptz(3) AS now`,
)

const DELETE_HOOKS = statement(
  "retry_delete_hooks",
  `WITH deleted AS (DELETE FROM tasks WHERE run_seq = :run AND node = ANY (:hooks::int[]) AND hook RETURNING id)
   DELETE FROM attempts a USING deleted d WHERE a.task_id = d.id`,
)

/** A run that was cancelled before its start has no rows. */
const HAS_ROWS = statement("retry_has_rows", 'SELECT EXISTS (SELECT 1 FROM tasks WHERE run_seq = :run) AS "hasRows"')

/** Returns false when the run is not closed, or not as the plan found it. */
export const retryRun = async (tx: Tx, runId: RunId, plan: RetryReset): Promise<boolean> => {
  const [run] = await tx.run<StartableRun>(FINISHED, { runId, endedAt: plan.endedAt ?? null })
  if (run === undefined) return false
  const compiled = await tx.workflows.compiled(run.version_id)
  const hooks = compiled.nodes.flatMap((node, i) => (node.hook === null ? [] : [i]))
  if (hooks.length > 0) await tx.run(DELETE_HOOKS, { run: run.seq, hooks })
  const [{ hasRows }] = (await tx.run<{ hasRows: boolean }>(HAS_ROWS, { run: run.seq })) as [{ hasRows: boolean }]
  const queued = await tx.run<{ now: string }>(QUEUE, { run: run.seq, plan: hasRows ? JSON.stringify(plan.rows) : null })
  const started = mustWaitToStart(compiled, {})
    ? (await startPendingRuns(tx, [run.workflow_id])).runs
    : await startNow(tx, run, hasRows ? plan.rows : null)
  const { now: at } = queued[0]!
  const isPending = !started.some(({ seq }) => seq === run.seq)
  tx.events.push(
    ...started.map(({ id }) => ({ type: "run", runId: id, status: "running", at }) as const),
    ...(isPending ? [{ type: "run", runId: run.id, status: "pending", at } as const] : []),
  )
  return true
}

const startNow = async (tx: Tx, run: StartableRun, nodes: RetryReset["rows"] | null): Promise<StartableRun[]> => {
  if (nodes === null) await startRuns(tx, [run])
  else await reopenRun(tx, run, nodes)
  return [run]
}
