// Creates, changes, cancels and deletes jobs. Each operation checks everything before it writes anything.

import { iso } from "../../../core/model/ports.ts"
import { planJob, rejectChange } from "../../../core/rules/jobs/job-plan.ts"
import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { JOB_CANCELLED } from "../../../core/rules/messages.ts"
import { endedLongAgo, jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobEdit, JobRejection, JobRow, JobStore } from "../../contract/jobs.ts"
import { createJobs, findKey } from "./create.ts"
import { changeDependencies, checkDependencies, findJobs, statusesOf } from "./edges.ts"
import { deleteRow } from "./delete-row.ts"
import { emitJob, setJobStatus } from "./job-status.ts"
import { setExpiry } from "./times.ts"
import { getJob, readJob } from "./reads.ts"
import { searchJobs } from "./search.ts"
import { limitText } from "../connection/limit-column.ts"
import { BatchEffects } from "../advance/batch-effects.ts"
import { type LoadedRow, loadRows } from "../cache/load-rows.ts"
import { RESET_COLUMNS, SUPERSEDE_WHERE } from "../runs/reset.ts"
import { requestStop } from "../advance/stop-requests.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const jobStore = ({ read, write }: Access): JobStore => ({
  createJobs: (jobs, { onConflict = "existing" } = {}) => write((tx) => createJobs(tx, jobs, onConflict)),
  getJob: (id) => read((s) => getJob(s, id)),
  editJob: (id, change) => write((tx) => editJob(tx, id, change)),
  deleteJob: (id, olderThanMs) => write((tx) => deleteJob(tx, id, olderThanMs)),
  cancelJob: (id) => write((tx) => cancelJob(tx, id)),
  retryJob: (id) => write((tx) => retryJob(tx, id)),
  removableJobs: (query) => read((s) => removableJobs(s, query)),
  searchJobs: (query) => read((s) => searchJobs(s, query)),
})

const FIND = "SELECT task_id, status FROM jobs WHERE id = ?"

interface Found {
  row: LoadedRow
  status: JobStatus
}

const find = (tx: Tx, id: string): Found | null => {
  const found = tx.db.get<[number, JobStatus]>(FIND, id)
  return found === undefined ? null : { row: loadRows(tx.db, [found[0]]).get(found[0])!, status: found[1] }
}

/** Returns the job, or why it accepts no change. */
const findOpen = (tx: Tx, id: string): Found | JobRejection => {
  const found = find(tx, id)
  if (found === null) return { rejected: "not_found" }
  return rejectChange(found.status) ?? found
}

// -- change ----------------------------------------------------------------------------------------------------------------------

const WRITE =
  "UPDATE jobs SET name = ?, queue = ?, payload = ?, priority = ?, retry_policy = ?, updated_at = ? WHERE task_id = ?"

const SET_PRIORITY = "UPDATE tasks SET priority = ? WHERE id = ?"

const SET_NAME = "UPDATE tasks SET item = ? WHERE id = ?"

const editJob = (tx: Tx, id: string, change: JobEdit): JobRow | JobRejection => {
  const found = findOpen(tx, id)
  if ("rejected" in found) return found
  const { row } = found
  const before = readJob(tx, row.id)
  const rejection = change.dependencies === undefined ? null : checkDependencies(tx, before, change.dependencies)
  if (rejection !== null) return rejection
  const job = { ...before, ...change }
  const other = job.name === before.name ? undefined : findKey(tx, job)
  if (other !== undefined) return { rejected: "key_exists", id: other }
  tx.db.run(
    WRITE,
    job.name,
    job.queue,
    JSON.stringify(job.payload),
    job.priority,
    JSON.stringify(job.retryPolicy),
    tx.at,
    row.id,
  )
  if (job.priority !== before.priority) tx.db.run(SET_PRIORITY, job.priority, row.id)
  if (job.queue !== before.queue) changeQueue(tx, row, job)
  if (job.name !== before.name) tx.db.run(SET_NAME, job.name, row.id)
  if (change.dependencies !== undefined) changeDependencies(tx, job, change.dependencies)
  tx.wake.noteWorkLeft()
  return readJob(tx, row.id)
}

const SET_QUEUE = "UPDATE tasks SET lane = ?, limits = ?, parked = NULL WHERE id = ?"

/** Moves a job to another queue. An attempt in flight takes slots of the new queue even if none is free. */
const changeQueue = (tx: Tx, row: LoadedRow, job: JobRow): void => {
  const effects = new BatchEffects(tx)
  const lane = jobLane(job)
  const limits = tx.limits.ensure(jobLimits(job))
  if (row.status === "pending") effects.unparkInPlaceOf(row.limits)
  else {
    effects.free(row)
    for (const slot of [...limits, tx.queues.limitOf(lane)]) if (slot !== null) tx.limits.use(slot, 1)
  }
  tx.db.run(SET_QUEUE, lane, limitText(limits), row.id)
  effects.unpark()
}

// -- end -------------------------------------------------------------------------------------------------------------------------

const CANCEL = `
UPDATE tasks SET status = 'cancelled', error = ?, finished_at = ?, parked = NULL, available_at = NULL WHERE id = ? AND status = 'pending'`

const cancelJob = (tx: Tx, id: string): JobRow | JobRejection => {
  const found = findOpen(tx, id)
  if ("rejected" in found) return found
  const { row } = found
  if (row.status !== "pending") requestStop(tx, row.id)
  else {
    const effects = new BatchEffects(tx)
    tx.db.run(CANCEL, JOB_CANCELLED, tx.at, row.id)
    emitJob(tx, row, "FAILED", { error: JOB_CANCELLED })
    effects.unparkInPlaceOf(row.limits)
    effects.finish(row, "cancelled", null)
    effects.apply()
    effects.unpark()
  }
  return readJob(tx, row.id)
}

const SUPERSEDE = `${SUPERSEDE_WHERE} id = ?`
const RESET = `UPDATE tasks SET ${RESET_COLUMNS}, upstream_pending = ?, limits = ? WHERE id = ?`

const retryJob = (tx: Tx, id: string): JobRow | JobRejection => {
  const found = find(tx, id)
  if (found === null) return { rejected: "not_found" }
  const { row, status } = found
  if (status !== "FAILED") return { rejected: "not_failed", status }
  const job = readJob(tx, row.id)
  const plan = planJob(job.dependencies, statusesOf(findJobs(tx, job.dependencies)))
  if (plan.status === "BLOCKED") return { rejected: "not_failed", status: plan.status }
  tx.db.run(SUPERSEDE, row.id)
  tx.db.run(RESET, plan.pending, limitText(tx.limits.ensure(jobLimits(job))), row.id)
  setJobStatus(tx, row, plan.status, {})
  if (plan.status === "READY" && row.attempt === 0) setExpiry(tx, row.id, job.expiresMs, null)
  tx.wake.noteWorkLeft()
  return readJob(tx, row.id)
}

const DEPENDENTS = "SELECT 1 FROM job_edges WHERE dependency = ? LIMIT 1"
const DELETE = "DELETE FROM jobs WHERE task_id = ?"
const DELETE_EDGES = "DELETE FROM job_edges WHERE dependent = ?"

/** Renames the row of an attempt in flight, which stays until the attempt has finished; the id of the job can be used again. */
const DETACH = "UPDATE tasks SET path = path || ' ' || attempt_id WHERE id = ?"

const deleteJob = (tx: Tx, id: string, olderThanMs?: number): JobRejection | null => {
  const found = find(tx, id)
  if (found === null) return { rejected: "not_found" }
  const { row } = found
  if (olderThanMs !== undefined && !endedLongAgo(readJob(tx, row.id), olderThanMs, tx.now)) return { rejected: "not_ended" }
  if (tx.db.get(DEPENDENTS, row.id) !== undefined) return { rejected: "has_dependents" }
  tx.db.run(DELETE, row.id)
  tx.db.run(DELETE_EDGES, row.id)
  if (row.status === "dispatched" || row.status === "running") {
    requestStop(tx, row.id)
    tx.db.run(DETACH, row.id)
    return null
  }
  deleteRow(tx, row.id)
  const effects = new BatchEffects(tx)
  if (row.status === "pending") effects.unparkInPlaceOf(row.limits)
  effects.unpark()
  return null
}

const REMOVABLE = `
SELECT id FROM jobs j WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND updated_at < ?
  AND NOT EXISTS (SELECT 1 FROM job_edges WHERE dependency = j.task_id)
ORDER BY task_id LIMIT ? + 0`

const removableJobs = ({ db, clock }: StoreContext, { olderThanMs, limit }: { olderThanMs: number; limit: number }): string[] =>
  db.all<[string]>(REMOVABLE, iso(clock.now() - olderThanMs), limit).map(([id]) => id)
