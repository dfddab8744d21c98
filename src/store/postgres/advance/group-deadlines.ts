// Groups with a timeout. While one is open it has a deadline; when that has passed, what waits below the group is cancelled, what
// runs there is stopped, and its gather ends it as timed out. What comes up below it later (a verdict of a gate, an attempt that
// would be tried again) is ended in the same transaction: so a passed deadline needs no second look by the clock, unless others
// claim there in the same moment.

import { hasGroupTimeout } from "../../../core/model/task-path.ts"
import { MAX_CANCEL, MAX_DUE } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { timedOut } from "../../../core/rules/messages.ts"
import { anyParam, arrayParam } from "../connection/array-params.ts"
import { type CancelledRow, CUT_OFF, END_DOOMED } from "./cancel-pending.ts"
import type { Task } from "./changes.ts"
import type { FinalChange, AttemptChanges } from "./coalesce-changes.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import { dropStops } from "./stop-requests.ts"
import type { Workflows } from "../admin/workflows.ts"

const NOW = "COALESCE($1::timestamptz, now())"

type Place = Pick<InFlightAttempt, "row" | "versionId" | "node">

const SET = statement(
  "deadlines_set",
  `INSERT INTO deadlines (task_id, at)
   SELECT c.id, ${NOW} + c.timeout * interval '1 millisecond' FROM unnest($2::bigint[], $3::bigint[]) AS c (id, timeout)
   ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = false`,
)

/** These groups are open from now on. Returns whether one of them has a timeout. */
export const setDeadlines = async (
  tx: SqlRunner,
  now: string | null,
  workflows: Workflows,
  groups: readonly Place[],
): Promise<boolean> => {
  const timed = groups.filter((group) => timeoutOf(workflows, group) !== null)
  if (timed.length === 0) return false
  const timeouts = timed.map((group) => timeoutOf(workflows, group))
  await tx.run(SET, [now, arrayParam(timed.map(({ row }) => row)), arrayParam(timeouts)])
  return true
}

const timeoutOf = (workflows: Workflows, { versionId, node }: Place): number | null =>
  workflows.now(versionId).nodes[node]!.timeoutMs

const DROP = statement("deadlines_drop", "DELETE FROM deadlines WHERE task_id = ANY ($1::bigint[])")

/** These groups have ended. */
export const dropDeadlines = async (tx: SqlRunner, workflows: Workflows, groups: readonly Place[]): Promise<void> => {
  const timed = groups.filter((group) => timeoutOf(workflows, group) !== null)
  if (timed.length > 0) await tx.run(DROP, [anyParam(timed.map(({ row }) => row))])
}

/** All runs of the batch, in order: later locks of the same transaction add none. */
const LOCK_RUNS = statement("deadlines_lock", "SELECT 1 FROM runs WHERE seq = ANY ($1::bigint[]) ORDER BY seq FOR UPDATE")

/** Read after the lock: who passes a deadline has the run locked too. */
const PASSED = statement(
  "deadlines_passed",
  `WITH RECURSIVE above (row, id) AS (
     SELECT r.id, r.id FROM unnest($1::bigint[]) AS r (id)
     UNION ALL
     SELECT a.row, t.parent_id FROM above a JOIN tasks t ON t.id = a.id WHERE t.parent_id IS NOT NULL
   )
   SELECT a.row, array_agg(d.task_id) AS groups FROM above a JOIN deadlines d ON d.task_id = a.id AND d.passed GROUP BY a.row`,
)

export interface Judged {
  tasks: Task[]
  /** Groups below which these changes may leave something. */
  overdue: Set<number>
}

/** The changes with what becomes of those about rows that are, or lie in, groups whose time is over. */
export const withDeadlines = async (tx: SqlRunner, workflows: Workflows, tasks: Task[], now: number): Promise<Judged> => {
  const judged: Judged = { tasks, overdue: new Set() }
  const timed = tasks.filter(({ held }) => !isJobRow(held.runSeq) && hasGroupTimeout(workflows.now(held.versionId), held.node))
  if (timed.length === 0) return judged
  const locked = tx.run(LOCK_RUNS, [anyParam(new Set(tasks.map(({ held }) => held.runSeq)))])
  const read = tx.run<{ row: number; groups: number[] }>(PASSED, [anyParam(timed.map(({ held }) => held.row))])
  await locked
  const passed = new Map((await read).map(({ row, groups }) => [row, groups]))
  if (passed.size === 0) return judged
  const ended: number[] = []
  judged.tasks = tasks.map((task) => {
    const { held, step } = task
    const groups = passed.get(held.row)
    if (groups === undefined) return task
    const last = step.final === null ? null : lastOf(workflows, held, step.final, groups, now)
    if (last?.kind === "finish") ended.push(held.row)
    if (leaves(last, step)) for (const group of groups) judged.overdue.add(group)
    return { ...task, step: { ...step, final: last } }
  })
  if (ended.length > 0) await dropStops(tx, ended)
  return judged
}

const leaves = (last: FinalChange | null, { expands }: AttemptChanges): boolean =>
  expands.length > 0 || last?.kind === "enqueue" || last?.kind === "release" || last?.kind === "wait"

const lastOf = (
  workflows: Workflows,
  held: InFlightAttempt,
  change: FinalChange,
  groups: readonly number[],
  now: number,
): FinalChange => {
  switch (change.kind) {
    case "gather": {
      if (change.status !== "failed") return change
      const { error: _, ...rest } = change
      if (!groups.includes(held.row)) return { ...rest, status: "cancelled" }
      return { ...rest, error: timedOut(timeoutOf(workflows, held) ?? undefined) }
    }
    case "retry":
      return cancelled(change, now)
    case "wait":
    case "release":
      return held.gate ? change : cancelled(change, now)
    default:
      return change
  }
}

const cancelled = (change: Extract<FinalChange, { kind: "retry" | "wait" | "release" }>, now: number): FinalChange => {
  const { row, attemptId } = change
  const none = { startedAt: change.kind === "wait" ? (change.startedAt ?? null) : null, finishedAt: now }
  const result = change.kind === "retry" ? change.result : none
  return { row, attemptId, kind: "finish", status: "cancelled", result: { ...result, state: "cancelled" } }
}

const DUE = statement("deadlines_due", `SELECT task_id FROM deadlines WHERE at <= ${NOW} ORDER BY at LIMIT ${MAX_DUE}`)

/** Groups that are overdue. */
export const dueGroups = async (tx: SqlRunner, now: string | null): Promise<number[]> =>
  (await tx.run<{ task_id: number }>(DUE, [now])).map(({ task_id }) => task_id)

/** Runs that another transaction works on are left to it. */
const LOCK = statement(
  "deadlines_lock_overdue",
  `SELECT r.seq FROM runs r WHERE r.seq IN (SELECT t.run_seq FROM tasks t WHERE t.id = ANY ($1::bigint[]))
   ORDER BY r.seq FOR UPDATE SKIP LOCKED`,
)

/** Those of them below which something is to be ended; the rest have ended, or will by the cancel of their run. */
const PASS = statement(
  "deadlines_pass",
  `UPDATE deadlines d SET passed = d.passed OR o.is_open, at = NULL FROM (
     SELECT t.id, t.status = 'running' AND r.cancelling IS NULL AS is_open FROM tasks t JOIN runs r ON r.seq = t.run_seq
     WHERE t.id = ANY ($1::bigint[]) AND t.run_seq = ANY ($2::bigint[])
   ) o WHERE d.task_id = o.id
   RETURNING d.task_id AS id, o.is_open`,
)

/** What has not ended below these groups, down to what was not opened yet. */
const BELOW = (groups: string): string => `below (id, is_open) AS (
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM tasks t
     WHERE t.parent_id = ANY (${groups}::bigint[]) AND t.finished_at IS NULL
     UNION
     SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL FROM below b JOIN tasks t ON t.parent_id = b.id
     WHERE b.is_open AND t.finished_at IS NULL
   )`

const WAITS = "t.status = 'pending' AND t.attempt_id IS NULL AND NOT (t.kind <> 'task' AND t.started_at IS NOT NULL)"
const RUNS = `t.kind = 'task' AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
  AND NOT EXISTS (SELECT 1 FROM stop_requests s WHERE s.task_id = t.id)`
const SLEEPS = "t.waiting_on IS NOT NULL AND NOT t.cancel_requested"

const CUT = statement("deadlines_cut", `WITH RECURSIVE ${BELOW("$1")}, ${CUT_OFF("below")}`)

const WAKE = statement(
  "deadlines_wake",
  `WITH RECURSIVE ${BELOW("$2")}
   UPDATE tasks t SET resume_at = ${NOW}, cancel_requested = true, parked = NULL FROM below b WHERE t.id = b.id AND ${SLEEPS}`,
)

const STOP = statement(
  "deadlines_stop",
  `WITH RECURSIVE ${BELOW("$1")}
   INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT t.id, t.attempt_id, t.holder FROM below b JOIN tasks t ON t.id = b.id
   WHERE ${RUNS} AND t.holder IS NOT NULL ON CONFLICT DO NOTHING`,
)

const CANCEL = statement(
  "deadlines_cancel",
  `WITH RECURSIVE ${BELOW("$2")}, doomed AS MATERIALIZED (
     SELECT t.id, t.parked FROM below b JOIN tasks t ON t.id = b.id WHERE ${WAITS} LIMIT ${MAX_CANCEL} FOR UPDATE OF t SKIP LOCKED
   ), ${END_DOOMED}`,
)

/** A moment, for others to be done with what they have locked. */
const AGAIN = statement(
  "deadlines_again",
  `WITH RECURSIVE ${BELOW("$2")}
   UPDATE deadlines SET at = ${NOW} + CASE WHEN $3::boolean THEN interval '0' ELSE interval '20 milliseconds' END
   WHERE task_id = ANY ($2::bigint[]) AND EXISTS (
     SELECT 1 FROM below b JOIN tasks t ON t.id = b.id WHERE ${WAITS} OR ${RUNS} OR ${SLEEPS})`,
)

export interface Expired {
  rows: CancelledRow[]
  /** There is more for the next transaction. */
  full: boolean
}

/** Ends what is below groups that are overdue, a bounded number of rows. */
export const cancelOverdue = async (tx: SqlRunner, now: string | null, groups: Iterable<number>): Promise<Expired> => {
  const ids = anyParam(groups)
  const locked = await tx.run<{ seq: number }>(LOCK, [ids])
  const passed = await tx.run<{ id: number; is_open: boolean }>(PASS, [ids, anyParam(locked.map(({ seq }) => seq))])
  const open = passed.filter((group) => group.is_open)
  if (open.length === 0) return { rows: [], full: false }
  const below = anyParam(open.map(({ id }) => id))
  const values = [now, below]
  const sent = [tx.run(CUT, [below]), tx.run(STOP, [below]), tx.run(WAKE, values)].map(pipelined)
  const ended = tx.run<CancelledRow>(CANCEL, values)
  await Promise.all(sent)
  const rows = await ended
  const full = rows.length === MAX_CANCEL
  await tx.run(AGAIN, [...values, full])
  return { rows, full }
}
