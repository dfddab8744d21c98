// Jobs in a turn of the loop: what is true of their rows before the changes, what their ends do to others, what their claims
// carry. Nothing here is sent for a batch without jobs.

import { isJobRow, jobStatus } from "../../shared/job-rows.ts"
import type { JobClaim } from "../../contract/store.ts"
import { anyParam, arrayParam } from "../connection/array-params.ts"
import type { Changed, Task } from "./changes.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import type { FinalChange } from "./coalesce-changes.ts"
import { forgetJobs, type Released, releaseDependents } from "../jobs/edges.ts"
import { JOB_CLAIM, jobClaimOf, type JobClaimColumns } from "../jobs/reads.ts"
import { announceTaskWrites } from "../claim/queue-limits.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import { dropStops, withStop } from "./stop-requests.ts"

const LOCK = statement("jobs_lock", "SELECT 1 FROM tasks WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE")

/** Read after the lock: who cancels, deletes or moves a job has its row locked too. */
const READ = statement(
  "jobs_locked",
  `SELECT t.id AS row, t.path, t.lane, t.limits, j.task_id IS NULL AS deleted, s.task_id IS NOT NULL AS stopped
   FROM tasks t LEFT JOIN jobs j ON j.task_id = t.id LEFT JOIN stop_requests s ON s.task_id = t.id WHERE t.id = ANY ($1::bigint[])`,
)

interface Locked {
  row: number
  path: string
  lane: string
  limits: number[] | null
  deleted: boolean
  stopped: boolean
}

const isJob = ({ held }: Task): boolean => isJobRow(held.runSeq)

/** The tasks with what is true of their jobs now: others may have moved, cancelled or deleted them. */
export const lockJobs = async (tx: SqlRunner, tasks: Task[], now: number): Promise<Task[]> => {
  if (!tasks.some(isJob)) return tasks
  const rows = [anyParam(tasks.filter(isJob).map(({ held }) => held.row))]
  const entered = announceTaskWrites(tx)
  const locked = tx.run(LOCK, rows)
  const read = tx.run<Locked>(READ, rows)
  await entered
  await locked
  const found = new Map((await read).map((row) => [row.row, row]))
  return tasks.map((task) => {
    const row = isJob(task) ? found.get(task.held.row) : undefined
    if (row === undefined) return task
    const { path, lane, limits, deleted, stopped } = row
    const { final } = task.step
    const step = final === null ? task.step : { ...task.step, final: withStop(final, stopped, now) }
    return { held: { ...task.held, path, lane, limits }, step, deleted }
  })
}

const MOVE = statement(
  "jobs_move",
  `UPDATE jobs j SET status = c.status, updated_at = COALESCE($1::timestamptz, now())
   FROM unnest($2::bigint[], $3::text[]) AS c (id, status) WHERE j.task_id = c.id`,
)

const isEnd = (last: FinalChange | null): last is Extract<FinalChange, { kind: "finish" }> => last?.kind === "finish"

const NOTHING: Released = { ready: [], blocked: [] }

/** What follows from the changes whose fence held. */
export const finishJobs = async (
  tx: SqlRunner,
  now: string | null,
  tasks: readonly Task[],
  { applied }: Pick<Changed, "applied">,
): Promise<Released> => {
  const moved = tasks.filter((task) => isJob(task) && task.step.final !== null && applied.has(task.step))
  if (moved.length === 0) return NOTHING
  const rows = moved.map(({ held }) => held.row)
  const status = moved.map(({ step }) => jobStatus(isEnd(step.final) ? step.final.status : "pending"))
  const told = tx.run(MOVE, [now, arrayParam(rows), arrayParam(status)])
  const over = dropStops(tx, rows)
  const ended = moved.filter(({ step }) => isEnd(step.final))
  const rowsOf = (which: (task: Task) => boolean): number[] => ended.filter(which).map(({ held }) => held.row)
  const released = pipelined(
    releaseDependents(tx, now, {
      completed: rowsOf(({ step }) => isEnd(step.final) && step.final.status === "success"),
      failed: rowsOf(({ step }) => isEnd(step.final) && step.final.status !== "success"),
    }),
  )
  await told
  await over
  const result = await released
  await forgetJobs(
    tx,
    rowsOf(({ deleted }) => deleted === true),
  )
  return result
}

const CLAIM = statement(
  "jobs_claim",
  `UPDATE jobs j SET status = 'RUNNING', updated_at = COALESCE($1::timestamptz, now())
   FROM unnest($2::bigint[]) AS c (id) WHERE j.task_id = c.id RETURNING ${JOB_CLAIM}`,
)

/** Those of the taken rows that are jobs, as claims by row. Sends its statement at once. */
export const claimJobs = async (
  tx: SqlRunner,
  now: string | null,
  taken: readonly ClaimedRow[],
): Promise<Map<number, JobClaim>> => {
  const rows = taken.filter((row) => isJobRow(row.run_seq))
  if (rows.length === 0) return new Map()
  const found = await tx.run<JobClaimColumns>(CLAIM, [now, arrayParam(rows.map(({ id }) => id))])
  const jobs = new Map(found.map((columns) => [columns.row, columns]))
  return new Map(rows.map((row) => [row.id, toClaim(row, jobs.get(row.id)!)]))
}

const toClaim = (row: ClaimedRow, columns: JobClaimColumns): JobClaim => ({
  kind: "job",
  row: row.id,
  attemptId: row.new_id,
  attempt: row.attempt,
  priority: row.priority,
  job: jobClaimOf(columns),
  createdAt: columns.created_at,
})
