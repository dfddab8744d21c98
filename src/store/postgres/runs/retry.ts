// A user's retry of an ended run: rows of the plan start anew, the run is running again. What the run showed of those rows
// becomes history; attempt numbers go on, budgets of retries are new.

import type { RunId } from "../../../core/model/ids.ts"
import type { RetryReset } from "../../../core/rules/retry-plan.ts"
import { HELD_BACK } from "../../shared/bounds.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { startRuns } from "../advance/close-runs.ts"
import { setDeadlines } from "../advance/group-deadlines.ts"
import { logEvents } from "../advance/event-log.ts"
import { INNER_RUN, insertInto, READINESS } from "../claim/ready-queue.ts"
import { FRESH, SHOWS_ATTEMPT, SUPERSEDE_FROM } from "./reset.ts"
import { statement } from "../connection/connection.ts"
import type { Tx } from "../connection/tx.ts"

const ENDED = statement(
  "retry_ended",
  `SELECT seq, id, workflow_id, version_id, priority, private, root_run_id AS "rootRunId" FROM runs
   WHERE id = :runId::uuid AND finished_at IS NOT NULL AND hooks_pending = 0 AND finished_at = COALESCE(:endedAt::timestamptz, finished_at)
   FOR UPDATE`,
)

const REOPEN = statement(
  "retry_reopen",
  `UPDATE runs SET status = CASE WHEN :begun THEN 'running' ELSE 'pending' END, cancelling = NULL, paused = false, finished_at = NULL,
     error = NULL, open_tasks = 0, generation = generation + 1, timeout_at = COALESCE(:now::timestamptz, now()) + :timeoutMs::bigint * interval '1 millisecond'
   WHERE seq = :seq RETURNING COALESCE(:now::timestamptz, now())::timestamptz(3) AS now`,
)

const DROP_HOOKS = statement(
  "retry_drop_hooks",
  `WITH gone AS (DELETE FROM tasks WHERE run_seq = :seq AND node = ANY (:hooks::int[]) AND hook RETURNING id)
   DELETE FROM attempts a USING gone g WHERE a.task_id = g.id`,
)

/** Cancelled before it had begun, a run has no rows. */
const BEGUN = statement("retry_begun", "SELECT EXISTS (SELECT 1 FROM tasks WHERE run_seq = :seq) AS begun")

const RESET_INSTANCES = statement(
  "retry_instances",
  `WITH again AS (
     SELECT t.*, w.lane AS new_lane
     FROM unnest(:nodes::int[], :paths::text[], :instances::text[], :lanes::text[]) AS w (node, path, instance, lane)
     JOIN tasks c ON c.run_seq = :seq AND c.node = w.node AND c.path = w.path AND c.kind = 'fan' AND c.children_created > 0
     JOIN tasks t ON t.parent_id = c.id
     WHERE CASE WHEN w.instance IS NULL THEN t.status IN ('failed', 'skipped', 'cancelled') ELSE t.path = w.instance END
   ), history AS (
     ${SUPERSEDE_FROM} again t WHERE ${SHOWS_ATTEMPT}
   )
   UPDATE tasks t SET ${FRESH}, parked = NULL, inner_run = ${INNER_RUN("t")}, lane = a.new_lane FROM again a WHERE t.id = a.id`,
)

const RESET_ROWS = statement(
  "retry_rows",
  `WITH again AS (
     SELECT t.*, w.pending, w.failed, w.unmet, w.waived, w.lane AS new_lane
     FROM unnest(:nodes::int[], :paths::text[], :pending::int[], :failed::int[], :unmet::int[], :waived::int[], :lanes::text[])
       AS w (node, path, pending, failed, unmet, waived, lane)
     JOIN tasks t ON t.run_seq = :seq AND t.node = w.node AND t.path = w.path
   ), history AS (
     ${SUPERSEDE_FROM} again t WHERE ${SHOWS_ATTEMPT}
   )
   UPDATE tasks t SET ${FRESH}, parked = NULL, inner_run = ${INNER_RUN("t")}, upstream_pending = a.pending, upstream_failed = a.failed, upstream_unmet = a.unmet,
     upstream_waived = a.waived, lane = a.new_lane
   FROM again a WHERE t.id = a.id`,
)

/**
 * Resets containers. One whose children are partly retried waits for them; the others create their children again. A fan-out that was
 * interrupted during its expansion continues it. A group under limits continues when the gate has found slots for it.
 */
const RESET_CONTAINERS = statement(
  "retry_containers",
  `WITH again AS MATERIALIZED (
     SELECT c.id, CASE WHEN w.part AND c.children_created > 0 AND (c.kind = 'fan' OR c.children_created = c.children_total) THEN
       c.children_total - c.children_created + (SELECT count(*) FROM tasks i WHERE i.parent_id = c.id AND i.finished_at IS NULL) ELSE 0
       END AS children, c.kind = 'group' AND c.limits IS NOT NULL AS queues
     FROM unnest(:nodes::int[], :paths::text[], :partial::boolean[]) AS w (node, path, part)
     JOIN tasks c ON c.run_seq = :seq AND c.node = w.node AND c.path = w.path AND c.kind <> 'task'
   )
   UPDATE tasks t SET
     status = CASE WHEN a.children > 0 AND NOT a.queues AND t.children_created = t.children_total THEN 'running' ELSE 'pending' END,
     started_at = CASE WHEN a.children > 0 AND NOT a.queues THEN COALESCE(:now::timestamptz, now()) END,
     children_created = CASE WHEN a.children > 0 THEN t.children_created ELSE 0 END,
     children_total = CASE WHEN a.children > 0 THEN t.children_total END,
     children_pending = CASE WHEN a.children > 0 THEN a.children END,
     children_failed = CASE WHEN a.children > 0 THEN
       (SELECT count(*) FROM tasks c WHERE c.parent_id = t.id AND c.status IN ('failed', 'cancelled')) ELSE 0 END
   FROM again a WHERE t.id = a.id
   RETURNING t.id AS row, t.node, a.children > 0 AND a.queues AS queued, t.kind = 'group' AND t.status = 'running' AS opened`,
)

/** Parks the rows inside such a group until then. */
const HOLD_BACK = statement(
  "retry_hold_back",
  `WITH RECURSIVE below (id, is_open) AS (
     SELECT id, kind <> 'task' FROM tasks WHERE parent_id = ANY (:rows::bigint[]) AND finished_at IS NULL
     UNION ALL
     SELECT t.id, t.kind <> 'task' FROM below b JOIN tasks t ON t.parent_id = b.id WHERE b.is_open AND t.finished_at IS NULL
   )
   UPDATE tasks t SET parked = ${HELD_BACK} WHERE t.id IN (SELECT id FROM below) AND t.status = 'pending'`,
)

/** Of a run that had ended, so that none was. */
const LIST_READY = statement(
  "retry_list",
  insertInto("ready_queue", `(SELECT ${READINESS("t")} FROM tasks t WHERE t.run_seq = :seq) t`),
)

const RECOUNT = statement(
  "retry_recount",
  `UPDATE runs r SET open_tasks = c.open_tasks, failed = c.failed, tasks_total = c.total, tasks_success = c.success,
     tasks_failed = c.tasks_failed, tasks_skipped = c.skipped, tasks_cancelled = c.cancelled
   FROM (
     SELECT count(*) FILTER (WHERE parent_id IS NULL AND finished_at IS NULL) AS open_tasks,
       count(*) FILTER (WHERE parent_id IS NULL AND status = 'failed') AS failed,
       count(*) FILTER (WHERE kind = 'task') AS total,
       count(*) FILTER (WHERE kind = 'task' AND status = 'success') AS success,
       count(*) FILTER (WHERE kind = 'task' AND status = 'failed') AS tasks_failed,
       count(*) FILTER (WHERE kind = 'task' AND status = 'skipped') AS skipped,
       count(*) FILTER (WHERE kind = 'task' AND status = 'cancelled') AS cancelled
     FROM tasks WHERE run_seq = :seq
   ) c WHERE r.seq = :seq`,
)

interface Container {
  row: number
  node: number
  /** It waits for slots of its own. */
  queued: boolean
  opened: boolean
}

interface EndedRun {
  seq: number
  id: RunId
  workflow_id: number
  version_id: number
  priority: number
  private: boolean
  rootRunId: RunId | null
}

export const retryRun = async (tx: Tx, runId: RunId, reset: RetryReset): Promise<boolean> => {
  const [run] = await tx.run<EndedRun>(ENDED, { runId, endedAt: reset.endedAt ?? null })
  if (run === undefined) return false
  const compiled = await tx.workflows.compiled(run.version_id)
  const hooks = compiled.nodes.flatMap((node, i) => (node.hook === null ? [] : [i]))
  if (hooks.length > 0) await tx.run(DROP_HOOKS, { seq: run.seq, hooks: arrayParam(hooks) })
  const [{ begun } = { begun: false }] = await tx.run<{ begun: boolean }>(BEGUN, { seq: run.seq })
  const [reopened] = await tx.run<{ now: string }>(REOPEN, {
    now: tx.now,
    seq: run.seq,
    timeoutMs: compiled.timeoutMs ?? null,
    begun,
  })
  if (begun) await resetRows(tx, run, reset)
  else await startRuns(tx, [run])
  await logEvents(tx, [{ type: "run", runId: run.id, status: "running", at: reopened!.now }])
  return true
}

/** Children before their containers, which count them. */
const resetRows = async (tx: Tx, { seq, version_id: versionId }: EndedRun, { nodes }: RetryReset): Promise<void> => {
  const partly = nodes.filter(({ extent }) => extent !== "all" && extent !== "await")
  if (partly.length > 0)
    await tx.run(RESET_INSTANCES, {
      seq,
      nodes: arrayParam(partly.map(({ node }) => node)),
      paths: textArrayParam(partly.map(({ path }) => path)),
      instances: textArrayParam(partly.map(({ extent }) => (typeof extent === "object" ? extent.path : null))),
      lanes: textArrayParam(partly.map(({ instanceLane }) => instanceLane)),
    })
  const keys = { nodes: arrayParam(nodes.map(({ node }) => node)), paths: textArrayParam(nodes.map(({ path }) => path)) }
  await tx.run(RESET_ROWS, {
    seq,
    ...keys,
    pending: arrayParam(nodes.map(({ upstreamPending }) => upstreamPending)),
    failed: arrayParam(nodes.map(({ upstream }) => upstream.failed)),
    unmet: arrayParam(nodes.map(({ upstream }) => upstream.unmet)),
    waived: arrayParam(nodes.map(({ upstream }) => upstream.waived)),
    lanes: textArrayParam(nodes.map(({ lane }) => lane)),
  })
  const partial = arrayParam(nodes.map(({ extent }) => extent !== "all"))
  const containers = await tx.run<Container>(RESET_CONTAINERS, { now: tx.now, seq, ...keys, partial })
  const queued = containers.flatMap(({ row, queued: waits }) => (waits ? row : []))
  if (queued.length > 0) await tx.run(HOLD_BACK, { rows: anyParam(queued) })
  const opened = containers.filter((container) => container.opened)
  await setDeadlines(
    tx,
    opened.map(({ row, node }) => ({ row, node, versionId })),
  )
  await tx.run(LIST_READY, { seq })
  await tx.run(RECOUNT, { seq })
}
