// What the end of a job does to those that depend on it: the rules of core/rules/jobs.ts (`propagateCompletion`, `propagateFailure`) as
// statements, held to them by the conformance suite.

import { blockedBy } from "../../../core/rules/messages.ts"
import { moveJob } from "./status.ts"
import type { Tx } from "../connection/tx.ts"

export interface FinishedJob {
  row: number
  id: string
  completed: boolean
}

export const unblockDependents = (tx: Tx, job: FinishedJob): void => {
  if (job.completed) completeDependents(tx, job)
  else blockDependents(tx, job)
  if (tx.db.get(EXISTS, job.row) === undefined) deleteRow(tx, job.row)
}

const COMPLETE = `
UPDATE tasks SET upstream_pending = upstream_pending - 1
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, upstream_pending`

const completeDependents = (tx: Tx, job: FinishedJob): void => {
  const counted = tx.db.all<[string, number]>(COMPLETE, job.row)
  for (const [id, left] of counted.toSorted(byId)) if (left === 0) moveJob(tx, id, "READY", {})
}

const byId = ([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]): number =>
  a < b ? -1 : a > b ? 1 : 0

const BLOCK = `
UPDATE tasks SET status = 'skipped', error = ?, finished_at = ?
WHERE id IN (SELECT dependent FROM job_edges WHERE dependency = ?) AND status = 'pending' AND upstream_pending > 0
RETURNING path, id`

/** All the way down, in this transaction: nobody sees a job wait for one that will never complete. */
export const blockDependents = (tx: Tx, failed: Pick<FinishedJob, "row" | "id">): void => {
  const frontier = [failed]
  for (let job = frontier.pop(); job !== undefined; job = frontier.pop()) {
    const error = blockedBy(job.id)
    const blocked = tx.db.all<[string, number]>(BLOCK, error, tx.at, job.row)
    for (const [id, row] of blocked.toSorted(byId)) {
      moveJob(tx, id, "BLOCKED", { error })
      frontier.push({ row, id })
    }
  }
}

const EXISTS = "SELECT 1 FROM jobs WHERE task_id = ?"
const FORGET_ATTEMPTS = "DELETE FROM attempts WHERE task_id = ?"
const FORGET = "DELETE FROM tasks WHERE id = ?"

/** The row of a job that is deleted and, if it was live, dead. */
export const deleteRow = (tx: Tx, row: number): void => {
  tx.db.run(FORGET_ATTEMPTS, row)
  tx.db.run(FORGET, row)
}
