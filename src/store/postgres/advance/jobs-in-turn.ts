// Jobs in a turn: the state of their rows before the changes, and the effects of their finishes on dependent jobs. Nothing here is
// sent for a batch without jobs.

import { amendJobChange } from "../../../core/rules/changes/amend-change.ts"
import { isJobRow, jobStatus } from "../../shared/job-rows.ts"
import { lockTasksForWrite } from "../claim/queue-limits.ts"
import { pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { deleteRows } from "../jobs/delete-rows.ts"
import { type DependentChanges, propagateFinishes } from "../jobs/dependents.ts"
import type { AppliedChanges, AttemptUpdate } from "./apply-changes.ts"
import type { LastChange } from "./coalesce-changes.ts"
import { deleteStopRequests } from "./stop-requests.ts"

/**
 * Locks rows before the update that finishes them. The update alone would not wait for a transaction that adds dependents of the jobs
 * (jobs/edges.ts), and would leave those PENDING. The count is the reply, which is shorter than the rows.
 */
const LOCK = statement(
  "jobs_lock",
  "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE id = ANY (:rows::bigint[]) ORDER BY id FOR UPDATE) locked",
)

/** Read after the lock: whoever cancels, deletes or moves a job has its row locked too. */
const READ = statement(
  "jobs_locked",
  `SELECT t.id AS row, t.path, t.item, t.lane, t.limits, j.task_id IS NULL AS deleted, s.task_id IS NOT NULL AS stopped
   FROM tasks t LEFT JOIN jobs j ON j.task_id = t.id LEFT JOIN stop_requests s ON s.task_id = t.id
   WHERE t.id = ANY (:rows::bigint[])`,
)

interface LockedJob {
  row: number
  path: string
  item: string | null
  lane: string
  limits: number[] | null
  deleted: boolean
  stopped: boolean
}

const isJob = ({ inFlight }: AttemptUpdate): boolean => isJobRow(inFlight.runSeq)

export const updatedRows = (updates: readonly AttemptUpdate[]): number[] => updates.map(({ inFlight }) => inFlight.row)

/** Locks the rows of jobs. Sends its statements before it returns. */
export const lockRows = async (tx: Tx, rows: readonly number[]): Promise<void> => {
  const tableLocked = lockTasksForWrite(tx)
  const locked = tx.run(LOCK, { rows })
  await tableLocked
  await locked
}

/** Locks jobs and returns their updates with the current state of the job: others may have moved, cancelled or deleted it. */
export const lockAndAmendJobs = async (tx: Tx, updates: AttemptUpdate[]): Promise<AttemptUpdate[]> => {
  if (!updates.some(isJob)) return updates
  const rows = updatedRows(updates.filter(isJob))
  const locked = pipelined(lockRows(tx, rows))
  const read = tx.run<LockedJob>(READ, { rows })
  await locked
  const jobs = new Map((await read).map((job) => [job.row, job]))
  return updates.map((update) => {
    const job = isJob(update) ? jobs.get(update.inFlight.row) : undefined
    if (job === undefined) return update
    const { path, item: jobName, lane, limits, deleted, stopped } = job
    const { last } = update.attempt
    const attempt =
      last === null ? update.attempt : { ...update.attempt, last: amendJobChange(last, stopped, tx.clock.localNow()) }
    return { inFlight: { ...update.inFlight, path, lane, limits, jobName }, attempt, deleted }
  })
}

const SET_STATUS = statement(
  "jobs_set_status",
  `UPDATE jobs j SET status = c.status, updated_at = ${NOW}
   FROM unnest(:rows::bigint[], :statuses::text[]) AS c (id, status) WHERE j.task_id = c.id`,
)

const isAttemptFinish = (last: LastChange | null): last is Extract<LastChange, { kind: "finish" }> => last?.kind === "finish"

/** Updates the jobs whose attempts ended, and those that depend on them. */
export const finishJobs = async (
  tx: Tx,
  updates: readonly AttemptUpdate[],
  { outcomes }: Pick<AppliedChanges, "outcomes">,
): Promise<DependentChanges> => {
  const ended = updates.filter((update) => isJob(update) && update.attempt.last !== null && outcomes.has(update.attempt))
  if (ended.length === 0) return { ready: [], blocked: [] }
  const rows = updatedRows(ended)
  const statuses = ended.map(({ attempt: { last } }) => jobStatus(isAttemptFinish(last) ? last.status : "pending"))
  const updated = tx.run(SET_STATUS, { rows, statuses })
  const unstopped = deleteStopRequests(tx, rows)
  const finished = ended.flatMap(({ inFlight, attempt: { last }, deleted }) =>
    isAttemptFinish(last) ? [{ row: inFlight.row, success: last.status === "success", deleted: deleted === true }] : [],
  )
  const dependents = pipelined(
    propagateFinishes(tx, {
      completed: finished.filter(({ success }) => success).map(({ row }) => row),
      failed: finished.filter(({ success }) => !success).map(({ row }) => row),
    }),
  )
  await updated
  await unstopped
  const result = await dependents
  await deleteRows(
    tx,
    finished.filter(({ deleted }) => deleted).map(({ row }) => row),
  )
  return result
}
