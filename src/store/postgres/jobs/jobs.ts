// Creates, changes, cancels and deletes jobs. Each operation locks the row of the job and checks everything before it writes.

import { planJob, rejectChange } from "../../../core/rules/jobs/job-plan.ts"
import { JOB_CANCELLED } from "../../../core/rules/messages.ts"
import { endedLongAgo, jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobEdit, JobRejection, JobRow, JobStore } from "../../contract/jobs.ts"
import type { Access, Tx } from "../tx.ts"
import { createJobs, findKeys } from "./create.ts"
import { changeDependencies, checkDependencies, findJobs, lockEdges, removeEdges, statusesOf } from "./edges.ts"
import { jobEvent } from "../../shared/events.ts"
import { deleteRows } from "./delete-rows.ts"
import { dependentEvents, propagateFinishes } from "./dependents.ts"
import { setExpiry } from "./times.ts"
import { getJob, readJobs } from "./reads.ts"
import { searchJobs } from "./search.ts"
import { ensureLimits, FreedSlots, lockLimits, useSlots } from "../claim/limits.ts"
import { lockTasksForWrite, queueLimits } from "../claim/queue-limits.ts"
import { ENTRY, insertInto, READINESS, deleteFrom } from "../claim/ready-queue.ts"
import { isDuplicate } from "../connection/connection.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { HAS_ATTEMPT, RESET_COLUMNS, SUPERSEDE_FROM } from "../runs/reset.ts"
import type { JointCreations } from "../advance/joint-creations.ts"
import { requestStop } from "../advance/stop-requests.ts"
import { NOW } from "../connection/store-clock.ts"

export const jobStore = ({ read, writeAndNotify }: Access, creations: JointCreations): JobStore => ({
  createJobs: (jobs, { onConflict = "existing" } = {}) =>
    creations.create(jobs, () =>
      onDuplicate((checkIds) => writeAndNotify((tx) => createJobs(tx, jobs, { onConflict, checkIds }))),
    ),
  getJob: (id) => read((connection) => getJob(connection, id)),
  editJob: (id, change) => onDuplicate(() => writeAndNotify((tx) => editJob(tx, id, change))),
  deleteJob: (id, olderThanMs) => writeAndNotify((tx) => deleteJob(tx, id, olderThanMs)),
  cancelJob: (id) => writeAndNotify((tx) => cancelJob(tx, id)),
  retryJob: (id) => writeAndNotify((tx) => retryJob(tx, id)),
  removableJobs: (query) => read((connection) => removableJobs(connection, query)),
  searchJobs: (query) => read((connection) => searchJobs(connection, query)),
})

const MAX_DUPLICATES = 5

/** Tries again when another transaction has created a job with the id or the key: the next try finds that job. */
const onDuplicate = async <T>(write: (again: boolean) => Promise<T>): Promise<T> => {
  for (let tries = 1; ; tries++) {
    try {
      return await write(tries > 1)
    } catch (error) {
      if (!isDuplicate(error) || tries === MAX_DUPLICATES) throw error
    }
  }
}

const LOCK = statement(
  "job_lock",
  "SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = :id::uuid FOR UPDATE OF t",
)

const ROW = statement(
  "job_row",
  `SELECT t.status, t.lane, t.limits, ${NOW}::timestamptz(3) AS now
   FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = :id::uuid`,
)

interface Found {
  job: JobRow
  /** Dispatched or running. */
  isInFlight: boolean
  isPending: boolean
  lane: string
  limits: number[] | null
  /** The instant of the transaction. */
  at: string
}

type Row = Pick<Found, "lane" | "limits"> & { status: string; now: string }

/** Locks and reads a job: it does not change until the end of this transaction. */
const find = async (tx: SqlRunner, id: string): Promise<Found | null> => {
  const tableLocked = lockTasksForWrite(tx)
  const locked = tx.run(LOCK, { id })
  const read = tx.run<Row>(ROW, { id })
  await tableLocked
  await locked
  const [row] = await read
  const job = row === undefined ? null : await getJob(tx, id)
  if (row === undefined || job === null) return null
  const isInFlight = row.status === "dispatched" || row.status === "running"
  return { job, isInFlight, isPending: row.status === "pending", lane: row.lane, limits: row.limits, at: row.now }
}

/** Returns the job, or why it accepts no change. */
const findOpen = async (tx: SqlRunner, id: string): Promise<Found | JobRejection> => {
  const found = await find(tx, id)
  if (found === null) return { rejected: "not_found" }
  return rejectChange(found.job.status) ?? found
}

// -- change ----------------------------------------------------------------------------------------------------------------------

/**
 * Writes the fields of a job. A transaction that frees a slot skips rows locked here, so a parked row is unparked and the next claim
 * checks its limits again.
 */
const WRITE = statement(
  "job_write",
  `WITH before AS MATERIALIZED (
     SELECT ${ENTRY("t")} FROM tasks t
     WHERE t.id = :row AND (t.priority <> :priority::smallint OR t.parked IS NOT NULL OR t.item IS DISTINCT FROM :name)
   ), row AS (
     UPDATE tasks t SET priority = :priority::smallint, item = :name, parked = NULL FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "before")}
   ), enqueued AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs SET name = :name, queue = :queue, payload = :payload, priority = :priority::smallint, retry_policy = :policy,
     updated_at = ${NOW}
   WHERE task_id = :row`,
)

const editJob = async (tx: Tx, id: string, change: JobEdit): Promise<JobRow | JobRejection> => {
  const { dependencies } = change
  if (dependencies !== undefined) await lockEdges(tx)
  const found = await findOpen(tx, id)
  if ("rejected" in found) return found
  const { job: before, at } = found
  const existing = await findJobs(tx, dependencies ?? [])
  const rejection = dependencies === undefined ? null : await checkDependencies(tx, before, dependencies, existing)
  if (rejection !== null) return rejection
  const job = { ...before, ...change }
  const other = job.name === before.name ? undefined : [...(await findKeys(tx, [job])).values()][0]
  if (other !== undefined) return { rejected: "key_exists", id: other }
  const policy = JSON.stringify(job.retryPolicy)
  await tx.run(WRITE, {
    row: job.row,
    name: job.name,
    queue: job.queue,
    payload: JSON.stringify(job.payload),
    priority: job.priority,
    policy,
  })
  if (job.queue !== before.queue) await changeQueue(tx, found, job)
  if (dependencies !== undefined) tx.events.push(...(await changeDependencies(tx, { job: before, at }, dependencies, existing)))
  return (await readJobs(tx, [job.row]))[0]!
}

const SET_QUEUE = statement(
  "job_set_queue",
  `WITH before AS MATERIALIZED (SELECT ${ENTRY("t")} FROM tasks t WHERE t.id = :row), row AS (
     UPDATE tasks t SET lane = :lane, limits = :limits::bigint[], parked = NULL FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "before")}
   )
   ${insertInto("ready_queue", "row")}`,
)

/** Moves a job to another queue. An attempt in flight takes slots of the new queue even if none is free. */
const changeQueue = async (tx: Tx, { isInFlight, lane: oldLane, limits }: Found, job: JobRow): Promise<void> => {
  const lane = jobLane(job)
  const limitOf = await queueLimits(tx, [oldLane, lane])
  const newLimits = [...(await ensureLimits(tx, jobLimits(job))).values()]
  const freed = new FreedSlots()
  if (isInFlight) {
    const old = [...(limits ?? []), ...limitOf(oldLane)]
    const used = [...newLimits, ...limitOf(lane)]
    freed.free(old)
    await lockLimits(tx, [...old, ...used])
    await useSlots(tx, used)
  } else freed.unparkInPlaceOf(limits)
  await tx.run(SET_QUEUE, { row: job.row, lane, limits: newLimits.length === 0 ? null : newLimits })
  await freed.apply(tx)
}

// -- end -------------------------------------------------------------------------------------------------------------------------

const CANCEL = statement(
  "job_cancel",
  `WITH row AS (
     UPDATE tasks t SET status = 'cancelled', error = :error, finished_at = ${NOW}, parked = NULL,
       available_at = NULL
     WHERE t.id = :row RETURNING ${ENTRY("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "row")}
   )
   UPDATE jobs SET status = 'FAILED', updated_at = ${NOW} WHERE task_id = :row`,
)

const cancelJob = async (tx: Tx, id: string): Promise<JobRow | JobRejection> => {
  const found = await findOpen(tx, id)
  if ("rejected" in found) return found
  const { job, at, limits } = found
  if (found.isInFlight) {
    await requestStop(tx, job.row)
    return job
  }
  await tx.run(CANCEL, { row: job.row, error: JOB_CANCELLED })
  const dependents = await propagateFinishes(tx, { completed: [], failed: [job.row] })
  tx.events.push(jobEvent(job, "FAILED", { at, error: JOB_CANCELLED }), ...dependentEvents(dependents, at))
  await unparkInPlaceOf(tx, limits)
  return (await readJobs(tx, [job.row]))[0]!
}

const RESET = statement(
  "job_reset",
  `WITH superseded AS (
     ${SUPERSEDE_FROM} tasks t WHERE t.id = :row AND ${HAS_ATTEMPT}
   ), row AS (
     UPDATE tasks t SET ${RESET_COLUMNS}, upstream_pending = :pending, limits = :limits::bigint[] WHERE t.id = :row
     RETURNING ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs SET status = :status, updated_at = ${NOW} WHERE task_id = :row`,
)

const retryJob = async (tx: Tx, id: string): Promise<JobRow | JobRejection> => {
  const found = await find(tx, id)
  if (found === null) return { rejected: "not_found" }
  const { job, at } = found
  if (job.status !== "FAILED") return { rejected: "not_failed", status: job.status }
  const { status, pending } = planJob(job.dependencies, statusesOf(await findJobs(tx, job.dependencies)))
  if (status === "BLOCKED") return { rejected: "not_failed", status }
  const limits = [...(await ensureLimits(tx, jobLimits(job))).values()]
  await tx.run(RESET, { row: job.row, pending, limits: limits.length === 0 ? null : limits, status })
  if (job.attemptCount === 0) await setExpiry(tx, [job.row])
  tx.events.push(jobEvent(job, status, { at }))
  return (await readJobs(tx, [job.row]))[0]!
}

/** Unparks the next row of each limit in place of a row that left without using its slots. */
const unparkInPlaceOf = async (tx: Tx, limits: readonly number[] | null): Promise<void> => {
  const freed = new FreedSlots()
  freed.unparkInPlaceOf(limits)
  await freed.apply(tx)
}

const DEPENDENTS = statement("job_dependents", "SELECT 1 FROM job_edges WHERE dependency = :row LIMIT 1")
/** The list of a deleted job, unless it still has jobs of the same second. */
const LEFT_LIST = (column: "name" | "queue"): string =>
  `SELECT '${column === "name" ? "n:" : "q:"}' || d.${column} AS list, d.priority, d.second FROM deleted d WHERE NOT EXISTS (
       SELECT 1 FROM jobs j WHERE j.${column} = d.${column} AND j.priority = d.priority AND j.task_id <> d.task_id
         AND j.created_at >= d.second AND j.created_at < d.second + interval '1 second')`

/** The last job of a second takes the mark of its completed jobs along. */
const DELETE = statement(
  "job_delete",
  `WITH deleted AS (
     DELETE FROM jobs WHERE task_id = :row RETURNING task_id, name, queue, priority, date_trunc('second', created_at) AS second
   )
   DELETE FROM completed_seconds s USING (
     ${LEFT_LIST("name")} UNION ALL ${LEFT_LIST("queue")}
   ) l WHERE s.list = l.list AND s.priority = l.priority AND s.second = l.second`,
)

/** Renames the row of an attempt in flight, which stays until the attempt has finished; the id of the job can be used again. */
const DETACH = statement("job_detach", "UPDATE tasks SET path = path || ' ' || attempt_id WHERE id = :row")

const deleteJob = async (tx: Tx, id: string, olderThanMs?: number): Promise<JobRejection | null> => {
  const found = await find(tx, id)
  if (found === null) return { rejected: "not_found" }
  if (olderThanMs !== undefined && !endedLongAgo(found.job, olderThanMs, Date.parse(found.at))) return { rejected: "not_ended" }
  const { row } = found.job
  if ((await tx.run(DEPENDENTS, { row })).length > 0) return { rejected: "has_dependents" }
  await tx.run(DELETE, { row })
  await removeEdges(tx, row)
  if (found.isInFlight) {
    await requestStop(tx, row)
    await tx.run(DETACH, { row })
    return null
  }
  await deleteRows(tx, [row])
  if (found.isPending) await unparkInPlaceOf(tx, found.limits)
  return null
}

const REMOVABLE = statement(
  "jobs_removable",
  `SELECT id FROM jobs j
   WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND updated_at < ${NOW} - :olderThanMs * interval '1 millisecond'
     AND NOT EXISTS (SELECT 1 FROM job_edges WHERE dependency = j.task_id)
   ORDER BY task_id LIMIT :limit::int`,
)

const removableJobs = async (connection: SqlRunner, query: { olderThanMs: number; limit: number }): Promise<string[]> =>
  (await connection.run<{ id: string }>(REMOVABLE, query)).map(({ id }) => id)
