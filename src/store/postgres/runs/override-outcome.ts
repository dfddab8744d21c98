// Sets the outcome of a task by hand, by the rules of core/rules/runs/overrides.ts. Closes the run in the same transaction when nothing is
// open.

import { countedOutcome, edgesOf, isAllowedFailure } from "../../../core/rules/changes/effects.ts"
import type { RunId } from "../../../core/model/ids.ts"
import {
  type RunStatus,
  type SkipReason,
  type FinalStatus,
  isTaskFinished,
  type TaskStatus,
  type UpstreamOutcome,
} from "../../../core/model/status.ts"
import { type Node, nodeIndexOf } from "../../../core/model/workflow.ts"
import type { StatsStore } from "../../contract/stats.ts"
import {
  countOverride,
  countUpstreamEnd,
  overrideError,
  overrideTarget,
  recomputeRunStatus,
} from "../../../core/rules/runs/overrides.ts"
import type { AdvanceResult, RowKind, StoreEvent } from "../../contract/store.ts"
import { startPendingRuns, closeRuns, NOTHING_CLOSED } from "../advance/close-runs.ts"
import { emitClosed } from "../advance/events.ts"
import { FreedSlots } from "../claim/limits.ts"
import { ENTRY, deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "../advance/count-down.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { NOW } from "../connection/store-clock.ts"

type Override = Parameters<StatsStore["overrideOutcome"]>[0]

interface Overridden {
  result: Awaited<ReturnType<StatsStore["overrideOutcome"]>>
  closed: AdvanceResult["closed"]
}

const RUN = statement(
  "override_run",
  `SELECT seq, id, workflow_id, version_id, private, root_run_id AS "rootRunId", retry_plan IS NOT NULL AS "retryWaits", ${NOW}::timestamptz(3) AS now FROM runs
   WHERE id = :runId::uuid AND NOT removing FOR UPDATE`,
)

interface Run {
  seq: number
  id: RunId
  workflow_id: number
  version_id: number
  private: boolean
  rootRunId: RunId | null
  retryWaits: boolean
  now: string
}

const ROW = statement(
  "override_row",
  `SELECT id, run_seq, node, path, kind, hook, parent_id, status, skip_reason, attempt, attempt_id, limits, children_created,
     waiting_on IS NOT NULL AS waiting_on, parked IS NULL AND upstream_pending = 0 AS was_ready
   FROM tasks WHERE run_seq = :seq AND node = :node AND path = :path FOR UPDATE`,
)

interface Row {
  id: number
  run_seq: number
  node: number
  path: string
  kind: RowKind
  hook: boolean
  parent_id: number | null
  status: TaskStatus
  skip_reason: SkipReason | null
  attempt: number
  attempt_id: string | null
  limits: number[] | null
  children_created: number
  waiting_on: boolean
  was_ready: boolean
}

export const overrideOutcome = async (tx: Tx, override: Override): Promise<Overridden> => {
  const { workflows, events } = tx
  const [run] = await tx.run<Run>(RUN, { runId: override.runId })
  if (run === undefined) return { result: "not_found", closed: [] }
  if (run.retryWaits) return { result: "retry_waits", closed: [] }
  const compiled = await workflows.compiled(run.version_id)
  const node = nodeIndexOf(compiled, override.name)
  const [row] = await tx.run<Row>(ROW, { seq: run.seq, node, path: override.path })
  if (row === undefined) return { result: "not_found", closed: [] }
  const { status, attempt_id: attemptId, waiting_on: isWaiting, children_created: childrenCreated } = row
  const target = overrideTarget({ status, attemptId, isWaiting, childrenCreated })
  if (target === "in_flight") return { result: "in_flight", closed: [] }

  const compiledNode = compiled.nodes[node]!
  const end = (status: FinalStatus, skip: SkipReason | null): UpstreamOutcome =>
    countedOutcome(compiledNode, row.kind, status, skip)
  const edges = edgesOf(compiled, run, row, end(override.status, null))
  const before = isTaskFinished(status) ? status : null
  const allowedFailure = isAllowedFailure(compiledNode, row.kind, override.status)
  const finish = target === "waiting" ? finishWaiting : finishPending
  const canClose = target !== "finished" && (await finish(tx, row, override, allowedFailure))
  if (before !== null) await overrideFinished(tx, compiledNode, row, before, override)
  if (!row.hook) await recountDownstream(tx, row, edges, before === null ? null : end(before, row.skip_reason))
  const closed = canClose ? await closeRuns(tx, [run.seq]) : NOTHING_CLOSED
  const task: StoreEvent = {
    type: "task",
    runId: run.id,
    task: override.name,
    path: row.path,
    attempt: row.attempt,
    status: override.status,
    at: run.now,
    ...(override.status === "failed" && { error: override.reason }),
  }
  events.push(task)
  emitClosed(tx, run.now, closed)
  events.push(...(await recomputeStatus(tx, run, override)))
  return {
    result: "done",
    closed: closed.runs.map((each) => ({ runSeq: each.runSeq, runId: each.runId, status: each.status })),
  }
}

const FINISH_PENDING = statement(
  "override_finish_pending",
  `WITH finished AS (
     UPDATE tasks t SET status = :status, error = :error, finished_at = ${NOW}, parked = NULL,
       available_at = NULL, inner_run = NULL
     WHERE t.id = :id RETURNING ${ENTRY("t")}, t.parent_id, t.hook, t.kind, t.status, :allowedFailure::boolean AS allowed_failure
   ), dequeued AS (
     ${deleteFrom("ready_queue", "finished")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT done FROM counted`,
)

/** Finishes a pending row. Returns whether the run has no open task. */
const finishPending = async (tx: Tx, row: Row, override: Override, allowedFailure: boolean): Promise<boolean> => {
  const [counted] = await tx.run<{ done: boolean }>(FINISH_PENDING, {
    id: row.id,
    status: override.status,
    error: overrideError(override),
    allowedFailure,
  })
  const freed = new FreedSlots()
  if (row.was_ready) freed.unparkInPlaceOf(row.limits)
  await freed.apply(tx)
  return counted!.done
}

const FINISH_WAITING = statement(
  "override_finish_waiting",
  `WITH finished AS (
     UPDATE tasks t SET status = :status, last_attempt_state = :status, error = :error, finished_at = ${NOW}, holder = NULL,
       waiting_on = NULL, resume_at = NULL, must_end = false, parked = NULL
     WHERE t.id = :id RETURNING t.id, t.run_seq, t.parent_id, t.hook, t.kind, t.status, :allowedFailure::boolean AS allowed_failure
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "finished")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT done FROM counted`,
)

/** Finishes a waiting row. Returns whether the run has no open task. If a holder has resumed the row, that holder loses its fence. */
const finishWaiting = async (tx: Tx, row: Row, override: Override, allowedFailure: boolean): Promise<boolean> => {
  const [counted] = await tx.run<{ done: boolean }>(FINISH_WAITING, {
    id: row.id,
    status: override.status,
    error: overrideError(override),
    allowedFailure,
  })
  return counted!.done
}

const SET_STATUS = statement(
  "override_set_status",
  "UPDATE tasks SET status = :status, skip_reason = NULL, error = :error WHERE id = :id",
)

const COUNT_FAILED = statement(
  "override_count_failed",
  "UPDATE tasks SET children_failed = children_failed + :parentFailed WHERE id = :parent",
)

/** Starts a new generation: cached results of the run are no longer valid. */
const COUNT = statement(
  "override_count",
  `UPDATE runs SET generation = generation + 1, failed = failed + :runFailed,
     tasks_success = tasks_success + :success, tasks_failed = tasks_failed + :failed,
     tasks_skipped = tasks_skipped + :skipped, tasks_cancelled = tasks_cancelled + :cancelled
   WHERE seq = :seq`,
)

/** Changes the status of a finished row, and the counts of its container and its run. */
const overrideFinished = async (
  tx: SqlRunner,
  node: Node,
  row: Row,
  before: FinalStatus,
  override: Override,
): Promise<void> => {
  const { kind, hook, parent_id: parent } = row
  const { tasks, runFailed, parentFailed } = countOverride(
    node,
    { kind, hook, isChild: parent !== null },
    before,
    override.status,
  )
  await tx.run(SET_STATUS, { id: row.id, status: override.status, error: overrideError(override) })
  if (parent !== null) await tx.run(COUNT_FAILED, { parent, parentFailed })
  await tx.run(COUNT, {
    seq: row.run_seq,
    runFailed,
    success: tasks.success,
    failed: tasks.failed,
    skipped: tasks.skipped,
    cancelled: tasks.cancelled,
  })
}

const RECOUNT = statement(
  "override_recount",
  `WITH before AS MATERIALIZED (
     SELECT ${ENTRY("t")}, c.lane AS new_lane FROM unnest(:nodes::int[], :lanes::text[]) AS c (node, lane)
     JOIN tasks t ON t.run_seq = :seq AND t.node = c.node AND t.path = :path AND t.status = 'pending' AND t.attempt_id IS NULL
     FOR UPDATE OF t
   ), recounted AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - :finished::int, upstream_failed = t.upstream_failed + :failed::int,
       upstream_unmet = t.upstream_unmet + :unmet::int,
       upstream_waived = t.upstream_waived + :waived::int, lane = COALESCE(b.new_lane, t.lane)
     FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "before")}
   )
   ${insertInto("ready_queue", "recounted")}`,
)

/** Counts the new end in downstream rows that are still pending; it replaces the end `before` of a row that was finished. */
const recountDownstream = async (
  tx: SqlRunner,
  row: Row,
  edges: ReturnType<typeof edgesOf>,
  before: UpstreamOutcome | null,
): Promise<void> => {
  if (edges.length === 0) return
  const { failed, unmet, waived } = countUpstreamEnd(before, edges[0]!.outcome)
  const nodes = edges.map(({ node }) => node)
  const lanes = edges.map(({ reroute }) => reroute)
  await tx.run(RECOUNT, {
    seq: row.run_seq,
    path: row.path,
    finished: before === null ? 1 : 0,
    failed,
    unmet,
    waived,
    nodes,
    lanes,
  })
}

const RUN_STATE = statement(
  "override_run_state",
  `SELECT status, failed, EXISTS (
     SELECT 1 FROM tasks t WHERE t.run_seq = r.seq AND t.status = 'cancelled' AND t.parent_id IS NULL AND NOT t.hook
   ) AS "hasCancelled" FROM runs r WHERE seq = :seq`,
)

const SET_RUN_STATUS = statement("override_set_run_status", "UPDATE runs SET status = :status, error = :error WHERE seq = :seq")

/**
 * Recomputes the status of a finished run; a cancelled run stays cancelled. Its hooks do not run again. A run that waits for its
 * success may start.
 */
const recomputeStatus = async (tx: Tx, run: Run, { name }: Override): Promise<StoreEvent[]> => {
  const [state] = await tx.run<{ status: RunStatus; failed: number; hasCancelled: boolean }>(RUN_STATE, { seq: run.seq })
  const next = recomputeRunStatus(state!, name)
  if (next === null) return []
  const { status, error } = next
  await tx.run(SET_RUN_STATUS, { seq: run.seq, status, error })
  const started = (await startPendingRuns(tx, [run.workflow_id])).runs
  return [
    { type: "run", runId: run.id, status, at: run.now, ...(error !== null && { error }) },
    ...started.map(({ id }): StoreEvent => ({ type: "run", runId: id, status: "running", at: run.now })),
  ]
}
