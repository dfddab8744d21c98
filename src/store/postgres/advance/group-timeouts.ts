// Groups with a timeout. An open one has a row in the table `deadlines` (timeouts of groups, expiries of jobs). When it has passed, rows
// that wait below the group are cancelled, rows that run there are stopped, and its gather finishes it as timed out. Rows that come up
// below it later (admitted by the gate, or to be retried) are finished in the same transaction: a passed timeout needs no second timer,
// unless others claim rows there at the same moment.

import type { Change } from "../../../core/model/change.ts"
import { isUnderGroupTimeout } from "../../../core/model/task-path.ts"
import { MAX_CANCEL, MAX_DUE } from "../../shared/bounds.ts"
import { IS_CANCELLABLE } from "../../shared/cancellable.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { type AmendedChange, amendOverdueChange } from "../../../core/rules/changes/amend-change.ts"
import { nodeOf, type Workflows } from "../cache/workflows.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { CANCEL_ROWS, type CancelResult, type CancelledRow, cancelRows, STOP_CREATING } from "./cancel-pending.ts"
import type { AttemptUpdate } from "./apply-changes.ts"
import { deleteStopRequests } from "./stop-requests.ts"

type GroupRow = Pick<CachedAttempt, "row" | "versionId" | "node">

const SET = statement(
  "group_timeouts_set",
  `INSERT INTO deadlines (task_id, at)
   SELECT c.id, ${NOW} + c.timeout * interval '1 millisecond' FROM unnest(:groups::bigint[], :timeouts::bigint[]) AS c (id, timeout)
   ON CONFLICT (task_id) DO UPDATE SET at = excluded.at, passed = false`,
)

/** Starts the timeouts of groups that open. Returns whether one of them has a timeout. */
export const startGroupTimeouts = async (tx: Tx, opened: readonly GroupRow[]): Promise<boolean> => {
  const timed = opened.filter((group) => timeoutOf(tx.workflows, group) !== null)
  if (timed.length === 0) return false
  const timeouts = timed.map((group) => timeoutOf(tx.workflows, group))
  await tx.run(SET, { groups: timed.map(({ row }) => row), timeouts })
  return true
}

const timeoutOf = (workflows: Workflows, group: GroupRow): number | null => nodeOf(workflows, group).timeoutMs

const REMOVE = statement("group_timeouts_remove", "DELETE FROM deadlines WHERE task_id = ANY (:groups::bigint[])")

export const deleteGroupTimeouts = async (tx: Tx, finished: readonly GroupRow[]): Promise<void> => {
  const timed = finished.filter((group) => timeoutOf(tx.workflows, group) !== null)
  if (timed.length > 0) await tx.run(REMOVE, { groups: timed.map(({ row }) => row) })
}

/** Locks all runs of the batch in order; later locks of the transaction add none. */
const LOCK_RUNS = statement(
  "group_timeouts_lock_runs",
  "SELECT 1 FROM runs WHERE seq = ANY (:runs::bigint[]) ORDER BY seq FOR UPDATE",
)

/** Read after the lock: a transaction that marks a timeout as passed has the run locked too. */
const PASSED = statement(
  "group_timeouts_passed",
  `WITH RECURSIVE above (row, id) AS (
     SELECT r.id, r.id FROM unnest(:rows::bigint[]) AS r (id)
     UNION ALL
     SELECT a.row, t.parent_id FROM above a JOIN tasks t ON t.id = a.id WHERE t.parent_id IS NOT NULL
   )
   SELECT a.row, array_agg(d.task_id) AS groups FROM above a JOIN deadlines d ON d.task_id = a.id AND d.passed GROUP BY a.row`,
)

export interface AmendedUpdates {
  updates: AttemptUpdate[]
  /** Groups with passed timeouts below which these updates may leave rows that must be cancelled. */
  overdue: Set<number>
}

/** Replaces the final changes of rows that are, or lie in, groups whose time is over. */
export const amendOverdue = async (tx: Tx, updates: AttemptUpdate[]): Promise<AmendedUpdates> => {
  const overdue = new Set<number>()
  const timed = updates.filter(
    ({ inFlight }) =>
      !isJobRow(inFlight.runSeq) && isUnderGroupTimeout(tx.workflows.getLoaded(inFlight.versionId), inFlight.node),
  )
  if (timed.length === 0) return { updates, overdue }
  const locked = tx.run(LOCK_RUNS, { runs: [...new Set(updates.map(({ inFlight }) => inFlight.runSeq))] })
  const read = tx.run<{ row: number; groups: number[] }>(PASSED, { rows: timed.map(({ inFlight }) => inFlight.row) })
  await locked
  const passed = new Map((await read).map(({ row, groups }) => [row, groups]))
  if (passed.size === 0) return { updates, overdue }
  const finished: number[] = []
  const replaced = updates.map((update) => {
    const { inFlight, attempt: changes } = update
    const groups = passed.get(inFlight.row)
    if (groups === undefined) return update
    const row = {
      isOverdue: groups.includes(inFlight.row),
      timeoutMs: timeoutOf(tx.workflows, inFlight),
      usesSlots: inFlight.usesSlots,
    }
    const amend = <C extends Change>(change: C): AmendedChange<C> => amendOverdueChange(change, row, tx.clock.localNow())
    const amended = changes.last === null ? null : amend(changes.last)
    const last = amended?.change ?? null
    if (last?.kind === "finish") finished.push(inFlight.row)
    if (amended?.leavesOpenRow === true || changes.expands.some((change) => amend(change).leavesOpenRow))
      for (const group of groups) overdue.add(group)
    return { ...update, attempt: { ...changes, last } }
  })
  if (finished.length > 0) await deleteStopRequests(tx, finished)
  return { updates: replaced, overdue }
}

const DUE = statement(
  "group_timeouts_due",
  `SELECT d.task_id, (SELECT t.run_seq FROM tasks t WHERE t.id = d.task_id) AS run_seq
   FROM deadlines d WHERE d.at <= ${NOW} ORDER BY d.at LIMIT ${MAX_DUE}`,
)

export interface PassedTimeouts {
  groups: number[]
  /** Jobs past their expiry. */
  jobs: number[]
  /** Whether there may be more. */
  full: boolean
}

/** Returns the groups whose timeout, and the jobs whose expiry has passed. */
export const readPassedTimeouts = async (tx: Tx): Promise<PassedTimeouts> => {
  const rows = await tx.run<{ task_id: number; run_seq: number | null }>(DUE)
  const due: PassedTimeouts = { groups: [], jobs: [], full: rows.length === MAX_DUE }
  for (const { task_id, run_seq } of rows) due[run_seq === null || isJobRow(run_seq) ? "jobs" : "groups"].push(task_id)
  return due
}

/** Skips runs that another transaction has locked: it cancels these groups. */
const LOCK_OVERDUE = statement(
  "group_timeouts_lock_overdue",
  `SELECT r.seq FROM runs r WHERE r.seq IN (SELECT t.run_seq FROM tasks t WHERE t.id = ANY (:groups::bigint[]))
   ORDER BY r.seq FOR UPDATE SKIP LOCKED`,
)

/** Marks timeouts as passed. Groups that are not open have finished, or will when their run is cancelled. */
const PASS = statement(
  "group_timeouts_pass",
  `UPDATE deadlines d SET passed = d.passed OR o.is_open, at = NULL FROM (
     SELECT t.id, t.status = 'running' AND r.cancelling IS NULL AS is_open FROM tasks t JOIN runs r ON r.seq = t.run_seq
     WHERE t.id = ANY (:groups::bigint[]) AND t.run_seq = ANY (:runs::bigint[])
   ) o WHERE d.task_id = o.id
   RETURNING d.task_id AS id, o.is_open`,
)

/** Unfinished rows below the groups. */
const BELOW = `below (id, is_container) AS (
     SELECT t.id, t.kind <> 'task' FROM tasks t WHERE t.parent_id = ANY (:groups::bigint[]) AND t.finished_at IS NULL
     UNION
     SELECT t.id, t.kind <> 'task' FROM below b JOIN tasks t ON t.parent_id = b.id WHERE b.is_container AND t.finished_at IS NULL
   )`

const IS_IN_FLIGHT = `t.kind = 'task' AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
  AND NOT EXISTS (SELECT 1 FROM stop_requests s WHERE s.task_id = t.id)`
const IS_TO_RESUME = "t.waiting_on IS NOT NULL AND NOT t.must_end"

const STOP_CREATING_BELOW = statement("group_timeouts_stop_creating", `WITH RECURSIVE ${BELOW}, ${STOP_CREATING("below")}`)

const RESUME_BELOW = statement(
  "group_timeouts_resume",
  `WITH RECURSIVE ${BELOW}
   UPDATE tasks t SET resume_at = ${NOW}, must_end = true, parked = NULL FROM below b WHERE t.id = b.id AND ${IS_TO_RESUME}`,
)

const STOP_BELOW = statement(
  "group_timeouts_stop",
  `WITH RECURSIVE ${BELOW}
   INSERT INTO stop_requests (task_id, attempt_id, holder) SELECT t.id, t.attempt_id, t.holder FROM below b JOIN tasks t ON t.id = b.id
   WHERE (${IS_IN_FLIGHT} OR ${IS_TO_RESUME}) AND t.holder IS NOT NULL ON CONFLICT DO NOTHING`,
)

const CANCEL_BELOW = statement(
  "group_timeouts_cancel",
  `WITH RECURSIVE ${BELOW}, to_cancel AS MATERIALIZED (
     SELECT t.id, t.parked FROM below b JOIN tasks t ON t.id = b.id WHERE ${IS_CANCELLABLE} LIMIT ${MAX_CANCEL} FOR UPDATE OF t SKIP LOCKED
   ), ${CANCEL_ROWS}`,
)

/** Sets the timeout again while rows are left: at once, or after the others had a moment to unlock them. */
const REPEAT = statement(
  "group_timeouts_repeat",
  `WITH RECURSIVE ${BELOW}
   UPDATE deadlines SET at = ${NOW} + CASE WHEN :atOnce::boolean THEN interval '0' ELSE interval '20 milliseconds' END
   WHERE task_id = ANY (:groups) AND EXISTS (
     SELECT 1 FROM below b JOIN tasks t ON t.id = b.id WHERE ${IS_CANCELLABLE} OR ${IS_IN_FLIGHT} OR ${IS_TO_RESUME})`,
)

/** Cancels, stops and resumes rows below groups whose timeout has passed, a bounded number. */
export const cancelOverdue = async (tx: Tx, overdue: Iterable<number>): Promise<CancelResult> => {
  const candidates = [...overdue]
  const locked = await tx.run<{ seq: number }>(LOCK_OVERDUE, { groups: candidates })
  const runs = locked.map(({ seq }) => seq)
  const passed = await tx.run<{ id: number; is_open: boolean }>(PASS, { groups: candidates, runs })
  const groups = passed.filter((group) => group.is_open).map(({ id }) => id)
  if (groups.length === 0) return { rows: [], full: false }
  const sent = [STOP_CREATING_BELOW, STOP_BELOW, RESUME_BELOW].map((step) => pipelined(tx.run(step, { groups })))
  const cancelling = cancelRows(() => tx.run<CancelledRow>(CANCEL_BELOW, { groups }))
  await Promise.all(sent)
  const rows = await cancelling
  const full = rows.length >= MAX_CANCEL
  await tx.run(REPEAT, { groups, atOnce: full })
  return { rows, full }
}
