// Reopens a finished run for its retry: resets the rows of the plan. The attempts of reset rows move to the history; attempt numbers
// continue, retry budgets start again.

import { CANCEL_SIGNAL } from "../../../core/model/function-signals.ts"
import { PARKED_BY_GROUP } from "../../../core/rules/claims/admit.ts"
import { nodesAllowedToFail } from "../../../core/rules/changes/effects.ts"
import { type ResetRow, resetsWhole, type RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { startGroupTimeouts } from "../advance/group-timeouts.ts"
import { INNER_RUN, insertInto, READINESS } from "../claim/ready-queue.ts"
import {
  FORGET_TRANSACTIONS,
  HAS_ATTEMPT,
  IS_REPLACED_TRANSACTION,
  OWN_LIMITS,
  RESET_COLUMNS,
  SUPERSEDE_FROM,
} from "./reset.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"

const REOPEN = statement(
  "retry_reopen",
  `UPDATE runs SET status = 'running', generation = generation + 1, retry_plan = NULL,
     timeout_at = ${NOW} + :timeoutMs::bigint * interval '1 millisecond'
   WHERE seq = :run`,
)

/** Rows of the plan, each with the number of its reset in the plan. */
const FIND_ROWS = statement(
  "retry_find_rows",
  `SELECT w.number::int, t.id, t.kind, t.children_created AS "childrenCreated", t.children_total AS "childrenTotal"
   FROM unnest(:nodes::int[], :paths::text[]) WITH ORDINALITY AS w (node, path, number)
   JOIN tasks t ON t.run_seq = :run AND t.node = w.node AND t.path = w.path ORDER BY w.number`,
)

/** Resets instances of fan-outs: those with this path, or all that were not successful. */
const RESET_INSTANCES = statement(
  "retry_instances",
  `WITH reset AS (
     SELECT t.*, w.lane AS new_lane
     FROM unnest(:fans::bigint[], :instances::text[], :lanes::text[]) AS w (id, instance, lane) JOIN tasks t ON t.parent_id = w.id
     WHERE CASE WHEN w.instance IS NULL THEN t.status IN ('failed', 'skipped', 'cancelled') ELSE t.path = w.instance END
   ), history AS (
     ${SUPERSEDE_FROM} reset t WHERE ${HAS_ATTEMPT}
   ), forgotten AS (
     ${FORGET_TRANSACTIONS("reset")}
   )
   UPDATE tasks t SET ${RESET_COLUMNS}, limits = ${OWN_LIMITS}, parked = NULL, inner_run = ${INNER_RUN("t")}, lane = r.new_lane
   FROM reset r WHERE t.id = r.id`,
)

const RESET_ROWS = statement(
  "retry_rows",
  `WITH reset AS (
     SELECT t.*, w.pending, w.failed, w.unmet, w.waived, w.lane AS new_lane
     FROM unnest(:rows::bigint[], :pending::int[], :failed::int[], :unmet::int[], :waived::int[], :lanes::text[])
       AS w (id, pending, failed, unmet, waived, lane) JOIN tasks t ON t.id = w.id
   ), history AS (
     ${SUPERSEDE_FROM} reset t WHERE ${HAS_ATTEMPT}
   ), forgotten AS (
     DELETE FROM steps s USING reset r WHERE s.task_id = r.id
       AND (s.state = 'failed' OR NOT :durable::boolean AND ${IS_REPLACED_TRANSACTION})
   ), not_cancelled AS (
     DELETE FROM signals s USING reset r WHERE s.task_id = r.id AND s.name = :cancelSignal
   )
   UPDATE tasks t SET ${RESET_COLUMNS}, limits = ${OWN_LIMITS}, parked = NULL, inner_run = ${INNER_RUN("t")}, upstream_pending = r.pending, upstream_failed = r.failed,
     upstream_unmet = r.unmet, upstream_waived = r.waived, lane = r.new_lane
   FROM reset r WHERE t.id = r.id`,
)

/** Forgets steps of durable functions that run again, beside those that failed. */
const FORGET_STEPS = statement(
  "retry_forget_steps",
  `DELETE FROM steps s USING unnest(:rows::bigint[], :names::text[], :occurrences::int[]) AS w (id, name, occurrence)
   WHERE s.task_id = w.id AND s.name = w.name AND s.occurrence = w.occurrence`,
)

/**
 * Counts the children of containers. One that keeps its children (`keeps`) waits for those that are reset; the others create theirs
 * again. A fan-out that was interrupted during its expansion continues it. A group under limits continues when the gate has found
 * slots for it.
 */
const RESET_CONTAINERS = statement(
  "retry_containers",
  `WITH reset AS MATERIALIZED (
     SELECT t.id, t.kind = 'group' AND t.limits IS NOT NULL AS needs_slots, CASE WHEN c.keeps THEN
       t.children_total - t.children_created + (SELECT count(*) FROM tasks child WHERE child.parent_id = t.id AND child.finished_at IS NULL) ELSE 0
       END AS children
     FROM unnest(:containers::bigint[], :keeps::boolean[]) AS c (id, keeps) JOIN tasks t ON t.id = c.id
   )
   UPDATE tasks t SET
     status = CASE WHEN r.children > 0 AND NOT r.needs_slots AND t.children_created = t.children_total THEN 'running' ELSE 'pending' END,
     started_at = CASE WHEN r.children > 0 AND NOT r.needs_slots THEN ${NOW} END,
     children_created = CASE WHEN r.children > 0 THEN t.children_created ELSE 0 END,
     children_total = CASE WHEN r.children > 0 THEN t.children_total END,
     children_pending = CASE WHEN r.children > 0 THEN r.children END,
     children_failed = CASE WHEN r.children > 0 THEN
       (SELECT count(*) FROM tasks child WHERE child.parent_id = t.id AND (child.status = 'cancelled' OR child.status = 'failed'
         AND (t.kind = 'group' AND child.node = ANY (:allowed::int[])) IS NOT TRUE)) ELSE 0 END
   FROM reset r WHERE t.id = r.id
   RETURNING t.id AS row, t.node, r.children > 0 AND r.needs_slots AS "waitsForSlots", t.kind = 'group' AND t.status = 'running' AS opened`,
)

/** Parks the rows below groups that wait for slots. */
const HOLD_BACK = statement(
  "retry_hold_back",
  `WITH RECURSIVE below (id, is_open) AS (
     SELECT id, kind <> 'task' FROM tasks WHERE parent_id = ANY (:groups::bigint[]) AND finished_at IS NULL
     UNION ALL
     SELECT t.id, t.kind <> 'task' FROM below b JOIN tasks t ON t.parent_id = b.id WHERE b.is_open AND t.finished_at IS NULL
   )
   UPDATE tasks t SET parked = ${PARKED_BY_GROUP} WHERE t.id IN (SELECT id FROM below) AND t.status = 'pending'`,
)

/** Enqueues the ready rows. A closed run has no entries in the ready queue. */
const ENQUEUE_READY = statement(
  "retry_enqueue",
  insertInto("ready_queue", `(SELECT ${READINESS("t")} FROM tasks t WHERE t.run_seq = :run) t`),
)

const RECOUNT = statement(
  "retry_recount",
  `UPDATE runs r SET open_tasks = c.open_tasks, failed = c.failed, tasks_total = c.total, tasks_success = c.success,
     tasks_failed = c.tasks_failed, tasks_skipped = c.skipped, tasks_cancelled = c.cancelled
   FROM (
     SELECT count(*) FILTER (WHERE parent_id IS NULL AND finished_at IS NULL) AS open_tasks,
       count(*) FILTER (WHERE parent_id IS NULL AND status = 'failed' AND (node = ANY (:allowed::int[])) IS NOT TRUE) AS failed,
       count(*) FILTER (WHERE kind = 'task') AS total,
       count(*) FILTER (WHERE kind = 'task' AND status = 'success') AS success,
       count(*) FILTER (WHERE kind = 'task' AND status = 'failed') AS tasks_failed,
       count(*) FILTER (WHERE kind = 'task' AND status = 'skipped') AS skipped,
       count(*) FILTER (WHERE kind = 'task' AND status = 'cancelled') AS cancelled
     FROM tasks WHERE run_seq = :run
   ) c WHERE r.seq = :run`,
)

interface FoundRow extends ResetRow {
  /** Number of its reset in the plan, from 1. */
  number: number
  id: number
}

interface Container {
  row: number
  node: number
  waitsForSlots: boolean
  opened: boolean
}

interface ReopenedRun {
  seq: number
  version_id: number
}

export const reopenRun = async (tx: Tx, run: ReopenedRun, nodes: RetryReset["rows"]): Promise<void> => {
  const { timeoutMs = null } = await tx.workflows.compiled(run.version_id)
  await tx.run(REOPEN, { run: run.seq, timeoutMs })
  await resetNodes(tx, run, nodes)
}

/** Resets the rows of the plan, children before their containers, which count them. */
const resetNodes = async (
  tx: Tx,
  { seq: run, version_id: versionId }: ReopenedRun,
  nodes: RetryReset["rows"],
): Promise<void> => {
  const workflow = tx.workflows.getLoaded(versionId)
  const allowed = nodesAllowedToFail(workflow)
  const rows = await findRows(tx, run, nodes)
  await resetInstances(tx, rows)
  await resetRows(tx, rows, { durable: workflow.nodes[0]!.durable === true })
  await forgetSteps(tx, rows)
  await continueContainers(tx, rows, { versionId, allowed })
  await tx.run(ENQUEUE_READY, { run })
  await tx.run(RECOUNT, { run, allowed })
}

interface RowToReset {
  row: Omit<FoundRow, "number">
  reset: RetryReset["rows"][number]
  /** Whether a container creates its children again. */
  isWhole: boolean
}

const findRows = async (tx: Tx, run: number, nodes: RetryReset["rows"]): Promise<RowToReset[]> => {
  const params = { run, nodes: nodes.map(({ node }) => node), paths: nodes.map(({ path }) => path) }
  const found = await tx.run<FoundRow>(FIND_ROWS, params)
  return found.map(({ number, ...row }) => {
    const reset = nodes[number - 1]!
    return { row, reset, isWhole: resetsWhole(row, reset.extent) }
  })
}

/** Resets instances of fan-outs that keep the others. */
const resetInstances = async (tx: Tx, rows: readonly RowToReset[]): Promise<void> => {
  const partial = rows.filter(({ reset, isWhole }) => !isWhole && reset.extent !== "await")
  if (partial.length === 0) return
  await tx.run(RESET_INSTANCES, {
    fans: partial.map(({ row }) => row.id),
    instances: partial.map(({ reset: { extent } }) => (typeof extent === "object" ? extent.path : null)),
    lanes: partial.map(({ reset }) => reset.instanceLane),
  })
}

/** `durable`: the run is a durable function. */
const resetRows = async (tx: Tx, rows: readonly RowToReset[], { durable }: { durable: boolean }): Promise<void> => {
  await tx.run(RESET_ROWS, {
    rows: rows.map(({ row }) => row.id),
    pending: rows.map(({ reset }) => reset.upstreamPending),
    failed: rows.map(({ reset }) => reset.upstream.failed),
    unmet: rows.map(({ reset }) => reset.upstream.unmet),
    waived: rows.map(({ reset }) => reset.upstream.waived),
    lanes: rows.map(({ reset }) => reset.lane),
    cancelSignal: CANCEL_SIGNAL,
    durable,
  })
}

const forgetSteps = async (tx: Tx, rows: readonly RowToReset[]): Promise<void> => {
  const steps = rows.flatMap(({ row, reset }) => (reset.steps ?? []).map((step) => ({ ...step, row: row.id })))
  if (steps.length === 0) return
  await tx.run(FORGET_STEPS, {
    rows: steps.map(({ row }) => row),
    names: steps.map(({ name }) => name),
    occurrences: steps.map(({ occurrence }) => occurrence),
  })
}

/** Lets containers wait for the children that they keep, and groups under limits for their slots. */
const continueContainers = async (
  tx: Tx,
  rows: readonly RowToReset[],
  { versionId, allowed }: { versionId: number; allowed: number[] },
): Promise<void> => {
  const containers = rows.filter(({ row }) => row.kind !== "task")
  const continued = await tx.run<Container>(RESET_CONTAINERS, {
    containers: containers.map(({ row }) => row.id),
    keeps: containers.map(({ isWhole }) => !isWhole),
    allowed,
  })
  const groups = continued.filter(({ waitsForSlots }) => waitsForSlots).map(({ row }) => row)
  if (groups.length > 0) await tx.run(HOLD_BACK, { groups })
  const opened = continued.filter((container) => container.opened)
  await startGroupTimeouts(
    tx,
    opened.map(({ row, node }) => ({ row, node, versionId })),
  )
}
