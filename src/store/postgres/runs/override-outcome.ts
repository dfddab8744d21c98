// A task that somebody ends, or judges anew, by hand. A run that has nothing open any more is closed in the same transaction.

import { edgesOf } from "../../../core/rules/effects.ts"
import type { RunId } from "../../../core/model/ids.ts"
import {
  type RunStatus,
  type SkipReason,
  type TaskEnd,
  taskEnded,
  type TaskStatus,
  upstreamEnd,
} from "../../../core/model/status.ts"
import type { StatsStore } from "../../contract/stats.ts"
import {
  countOverride,
  countUpstreamEnd,
  overrideError,
  overrideTarget,
  recomputeRunStatus,
} from "../../../core/rules/overrides.ts"
import type { Advanced, RowKind, StoreEvent } from "../../contract/store.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { closeRuns, NOTHING_CLOSED } from "../advance/close-runs.ts"
import { logEvents } from "../advance/event-log.ts"
import { emitClosed } from "../advance/events.ts"
import { FreedSlots } from "../claim/limits.ts"
import { ENTRY, deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "../advance/count-down.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import type { Tx } from "../tx.ts"

type Mark = Parameters<StatsStore["overrideOutcome"]>[0]

interface Marked {
  answer: Awaited<ReturnType<StatsStore["overrideOutcome"]>>
  closed: Advanced["closed"]
}

const RUN = statement(
  "mark_run",
  `SELECT seq, id, version_id, private, root_run_id AS "rootRunId", COALESCE(:now::timestamptz, now())::timestamptz(3) AS now FROM runs
   WHERE id = :runId::uuid FOR UPDATE`,
)

interface Run {
  seq: number
  id: RunId
  version_id: number
  private: boolean
  rootRunId: RunId | null
  now: string
}

const ROW = statement(
  "mark_row",
  `SELECT id, node, path, kind, hook, parent_id, status, skip_reason, attempt, attempt_id, limits, children_created,
     waiting_on IS NOT NULL AS waiting_on, parked IS NULL AND upstream_pending = 0 AS was_ready
   FROM tasks WHERE run_seq = :seq AND node = :node AND path = :path FOR UPDATE`,
)

interface Row {
  id: number
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

export const markTask = async (tx: Tx, mark: Mark): Promise<Marked> => {
  const { now, workflows, events } = tx
  const [run] = await tx.run<Run>(RUN, { runId: mark.runId, now })
  if (run === undefined) return { answer: "not_found", closed: [] }
  const compiled = await workflows.compiled(run.version_id)
  const node = compiled.nodes.findIndex(({ name }) => name === mark.name)
  const [row] = await tx.run<Row>(ROW, { seq: run.seq, node, path: mark.path })
  if (row === undefined) return { answer: "not_found", closed: [] }
  const { status, attempt_id: attemptId, waiting_on: isWaiting, children_created: childrenCreated } = row
  const target = overrideTarget({ status, attemptId, isWaiting, childrenCreated })
  if (target === "in_flight") return { answer: "live", closed: [] }

  const edges = edgesOf(compiled, run, row, upstreamEnd(mark.status, null))
  const ended = taskEnded(status) ? status : null
  const done = target !== "finished" && (await (target === "waiting" ? endWaiting : endPending)(tx, now, row, mark))
  if (ended !== null) await judgeAnew(tx, run.seq, row, ended, mark)
  if (!row.hook) await reach(tx, run.seq, row, edges, ended === null ? null : upstreamEnd(ended, row.skip_reason))
  const closed = done ? await closeRuns(tx, [run.seq]) : NOTHING_CLOSED
  const task: StoreEvent = {
    type: "task",
    runId: run.id,
    task: mark.name,
    path: row.path,
    attempt: row.attempt,
    status: mark.status,
    at: run.now,
    ...(mark.status === "failed" && { error: mark.reason }),
  }
  events.push(task)
  emitClosed(tx, run.now, closed)
  events.push(...(await updateRunStatus(tx, run, mark)))
  await logEvents(tx, events)
  return { answer: "done", closed: closed.runs.map(({ runSeq, runId, status: end }) => ({ runSeq, runId, status: end })) }
}

const END = statement(
  "mark_end",
  `WITH ended AS (
     UPDATE tasks t SET status = :status, error = :error, finished_at = COALESCE(:now::timestamptz, now()), parked = NULL,
       available_at = NULL, inner_run = NULL
     WHERE t.id = :id RETURNING ${ENTRY("t")}, t.parent_id, t.hook, t.kind, t.status
   ), unlisted AS (
     ${deleteFrom("ready_queue", "ended")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT done FROM counted`,
)

/** Whether nothing of the run is open any more. */
const endPending = async (tx: SqlRunner, now: string | null, row: Row, mark: Mark): Promise<boolean> => {
  const [counted] = await tx.run<{ done: boolean }>(END, { id: row.id, status: mark.status, error: overrideError(mark), now })
  const freed = new FreedSlots()
  if (row.was_ready) freed.addUnparks(row.limits)
  await freed.apply(tx)
  return counted!.done
}

const END_WAITING = statement(
  "mark_end_waiting",
  `WITH ended AS (
     UPDATE tasks t SET status = :status, outcome = :status, error = :error, finished_at = COALESCE(:now::timestamptz, now()), holder = NULL,
       waiting_on = NULL, resume_at = NULL, cancel_requested = false, parked = NULL
     WHERE t.id = :id RETURNING t.id, t.run_seq, t.parent_id, t.hook, t.kind, t.status
   ), let_go AS (
     ${deleteFrom("in_flight", "ended")}
   ), ${COUNT_CONTAINERS}, ${COUNT_RUNS}
   SELECT done FROM counted`,
)

/** Whoever has it woken just now finds its fence gone. */
const endWaiting = async (tx: SqlRunner, now: string | null, row: Row, mark: Mark): Promise<boolean> => {
  const [counted] = await tx.run<{ done: boolean }>(END_WAITING, {
    id: row.id,
    status: mark.status,
    error: overrideError(mark),
    now,
  })
  return counted!.done
}

const CHANGE = statement("mark_change", "UPDATE tasks SET status = :status, skip_reason = NULL, error = :error WHERE id = :id")

const COUNT_FAILED = statement(
  "mark_count_failed",
  "UPDATE tasks SET children_failed = children_failed + :parentFailed WHERE id = :parent",
)

/** What was remembered of the run's ends no longer holds: a new round. */
const COUNT = statement(
  "mark_count",
  `UPDATE runs SET generation = generation + 1, failed = failed + :runFailed, tasks_success = tasks_success + :success, tasks_failed = tasks_failed + :failed,
     tasks_skipped = tasks_skipped + :skipped, tasks_cancelled = tasks_cancelled + :cancelled
   WHERE seq = :seq`,
)

const judgeAnew = async (tx: SqlRunner, seq: number, row: Row, before: TaskEnd, mark: Mark): Promise<void> => {
  const { kind, hook, parent_id: parent } = row
  const { tasks, runFailed, parentFailed } = countOverride({ kind, hook, isChild: parent !== null }, before, mark.status)
  await tx.run(CHANGE, { id: row.id, status: mark.status, error: overrideError(mark) })
  if (parent !== null) await tx.run(COUNT_FAILED, { parent, parentFailed })
  await tx.run(COUNT, {
    seq,
    runFailed,
    success: tasks.success,
    failed: tasks.failed,
    skipped: tasks.skipped,
    cancelled: tasks.cancelled,
  })
}

const REACH = statement(
  "mark_reach",
  `WITH before AS MATERIALIZED (
     SELECT ${ENTRY("t")}, c.lane AS rerouted FROM unnest(:nodes::int[], :lanes::text[]) AS c (node, lane)
     JOIN tasks t ON t.run_seq = :seq AND t.node = c.node AND t.path = :path AND t.status = 'pending' AND t.attempt_id IS NULL
     FOR UPDATE OF t
   ), reached AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - :finished::int, upstream_failed = t.upstream_failed + :failed::int,
       upstream_unmet = t.upstream_unmet + :unmet::int,
       upstream_waived = t.upstream_waived + :waived::int, lane = COALESCE(b.rerouted, t.lane)
     FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), unlisted AS (
     ${deleteFrom("ready_queue", "before")}
   )
   ${insertInto("ready_queue", "reached")}`,
)

/** Updates the waiting downstream rows: counts the task as finished, or replaces its result `before`. */
const reach = async (
  tx: SqlRunner,
  seq: number,
  row: Row,
  edges: ReturnType<typeof edgesOf>,
  before: ReturnType<typeof upstreamEnd> | null,
): Promise<void> => {
  if (edges.length === 0) return
  const { failed, unmet, waived } = countUpstreamEnd(before, edges[0]!.end)
  const nodes = arrayParam(edges.map(({ node }) => node))
  const lanes = textArrayParam(edges.map(({ reroute }) => reroute))
  await tx.run(REACH, { seq, path: row.path, finished: before === null ? 1 : 0, failed, unmet, waived, nodes, lanes })
}

const STATE = statement(
  "mark_state",
  `SELECT status, failed, EXISTS (
     SELECT 1 FROM tasks t WHERE t.run_seq = r.seq AND t.status IN ('failed', 'cancelled') AND t.parent_id IS NULL AND NOT t.hook
   ) AS "hasUnsuccessful" FROM runs r WHERE seq = :seq`,
)

const CLOSE = statement("mark_close", "UPDATE runs SET status = :status, error = :error WHERE seq = :seq")

/** Recomputes the status of a finished run from its tasks; a cancelled run stays cancelled. Hooks do not run again. */
const updateRunStatus = async (tx: SqlRunner, run: Run, { name }: Mark): Promise<StoreEvent[]> => {
  const [state] = await tx.run<{ status: RunStatus; failed: number; hasUnsuccessful: boolean }>(STATE, { seq: run.seq })
  const next = recomputeRunStatus(state!, name)
  if (next === null) return []
  const { status, error } = next
  await tx.run(CLOSE, { seq: run.seq, status, error })
  return [{ type: "run", runId: run.id, status, at: run.now, ...(error !== null && { error }) }]
}
