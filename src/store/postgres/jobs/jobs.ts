// Jobs: made, changed, cancelled, deleted. Each verb locks the job's row, then reads and checks everything before it writes.

import { rejectChange } from "../../../core/rules/job-plan.ts"
import { JOB_CANCELLED } from "../../../core/rules/messages.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobChange, JobRejection, JobRow, JobStore } from "../../contract/jobs.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { Access, Tx } from "../tx.ts"
import { anyParam, arrayParam } from "../connection/array-params.ts"
import { logEvents } from "../advance/event-log.ts"
import { createJobs } from "./create.ts"
import { changeDependencies, checkDependencies, holdKnown, removeEdges, takeTurns } from "./dependencies.ts"
import { forgetJobs, jobEvent, releaseDependents, emitReleased } from "./edges.ts"
import { getJob, readJobs } from "./reads.ts"
import { searchJobs } from "./search.ts"
import { ensureLimits, FreedSlots, lockLimits } from "../claim/limits.ts"
import { announceTaskWrites, queueLimits } from "../claim/queue-limits.ts"
import { ENTRY, insertInto, READINESS, deleteFrom } from "../claim/ready-queue.ts"
import { NOW } from "../connection/store-clock.ts"
import { isDuplicate, type SqlRunner, statement } from "../connection/connection.ts"
import { requestStop } from "../advance/stop-requests.ts"

export const jobStore = ({ read, writeAndNotify, clock }: Access): JobStore => ({
  createJobs: (jobs) => {
    const create = () => writeAndNotify((tx) => createJobs(tx, clock.now(), jobs))
    // Another one made a job of that id in between: the second time it is seen, and refused.
    return create().catch((error: unknown) => {
      if (isDuplicate(error)) return create()
      throw error
    })
  },
  getJob: (id) => read((session) => getJob(session, id)),
  updateJob: (id, change) => writeAndNotify((tx) => updateJob(tx, clock.now(), id, change)),
  deleteJob: (id) => writeAndNotify((tx) => deleteJob(tx, id)),
  cancelJob: (id) => writeAndNotify((tx) => cancelJob(tx, clock.now(), id)),
  expiredJobs: (query) => read((session) => expiredJobs(session, clock.now(), query)),
  searchJobs: (query) => read((session) => searchJobs(session, query)),
})

const LOCK = statement(
  "job_lock",
  "SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = :id::uuid FOR UPDATE OF t",
)

const ROW = statement(
  "job_row",
  `SELECT t.status, t.lane, t.limits, COALESCE(:now::timestamptz, now())::timestamptz(3) AS now
   FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = :id::uuid`,
)

interface Found {
  job: JobRow
  /** Dispatched or running. */
  live: boolean
  waits: boolean
  lane: string
  limits: number[] | null
  /** The instant of the transaction. */
  at: string
}

type Row = Pick<Found, "lane" | "limits"> & { status: string; now: string }

/** The job as it is, until the end of this transaction. */
const find = async (tx: SqlRunner, now: string | null, id: string): Promise<Found | null> => {
  const entered = announceTaskWrites(tx)
  const locked = tx.run(LOCK, { id })
  const read = tx.run<Row>(ROW, { id, now })
  await entered
  await locked
  const [row] = await read
  const job = row === undefined ? null : await getJob(tx, id)
  if (row === undefined || job === null) return null
  const live = row.status === "dispatched" || row.status === "running"
  return { job, live, waits: row.status === "pending", lane: row.lane, limits: row.limits, at: row.now }
}

/** The job, or why it cannot be changed any more. */
const findOpen = async (tx: SqlRunner, now: string | null, id: string): Promise<Found | JobRejection> => {
  const found = await find(tx, now, id)
  if (found === null) return { rejected: "not_found" }
  return rejectChange(found.job.status) ?? found
}

// -- change ----------------------------------------------------------------------------------------------------------------------

/** A row that was locked here is passed over by who gives a slot back: if it waits for one, it has another look. */
const WRITE = statement(
  "job_write",
  `WITH before AS MATERIALIZED (
     SELECT ${ENTRY("t")} FROM tasks t WHERE t.id = :row AND (t.priority <> :priority::smallint OR t.parked IS NOT NULL)
   ), row AS (
     UPDATE tasks t SET priority = :priority::smallint, parked = NULL FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), unlisted AS (
     ${deleteFrom("ready_queue", "before")}
   ), listed AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs SET name = :name, queue = :queue, payload = :payload, priority = :priority::smallint, retry_policy = :policy,
     updated_at = COALESCE(:now::timestamptz, now())
   WHERE task_id = :row`,
)

const updateJob = async (tx: Tx, now: string | null, id: string, change: JobChange): Promise<JobRow | JobRejection> => {
  const { dependencies } = change
  if (dependencies !== undefined) await takeTurns(tx)
  const found = await findOpen(tx, now, id)
  if ("rejected" in found) return found
  const { job: before, at } = found
  const existing = await holdKnown(tx, dependencies ?? [])
  const rejection = dependencies === undefined ? null : await checkDependencies(tx, before, dependencies, existing)
  if (rejection !== null) return rejection
  const job = { ...before, ...change }
  const policy = JSON.stringify(job.retryPolicy)
  await tx.run(WRITE, {
    now,
    row: job.row,
    name: job.name,
    queue: job.queue,
    payload: JSON.stringify(job.payload),
    priority: job.priority,
    policy,
  })
  if (job.queue !== before.queue) await changeQueue(tx, found, job)
  if (dependencies !== undefined) await logEvents(tx, await changeDependencies(tx, now, at, before, dependencies, existing))
  return (await readJobs(tx, [job.row]))[0]!
}

const MOVE = statement(
  "job_move",
  `WITH before AS MATERIALIZED (SELECT ${ENTRY("t")} FROM tasks t WHERE t.id = :row), row AS (
     UPDATE tasks t SET lane = :moved, limits = :ids::bigint[], parked = NULL FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}
   ), unlisted AS (
     ${deleteFrom("ready_queue", "before")}
   )
   ${insertInto("ready_queue", "row")}`,
)

const USE = statement("limits_use", "UPDATE limits SET used = used + 1 WHERE id = ANY (:limits::bigint[])")

/** A live attempt takes its slots along, whether or not there is room. */
const changeQueue = async (tx: SqlRunner, { live, lane, limits }: Found, job: JobRow): Promise<void> => {
  const moved = jobLane(job)
  const limitOf = await queueLimits(tx, [lane, moved])
  const ids = [...(await ensureLimits(tx, jobLimits(job))).values()]
  const freed = new FreedSlots()
  if (live) {
    const used = [...ids, ...limitOf(moved)]
    freed.addSlots([...(limits ?? []), ...limitOf(lane)])
    await lockLimits(tx, [...(limits ?? []), ...limitOf(lane), ...used])
    await tx.run(USE, { limits: anyParam(used) })
  } else freed.addUnparks(limits)
  await tx.run(MOVE, { row: job.row, moved, ids: arrayParam(ids) })
  await freed.apply(tx)
}

// -- end -------------------------------------------------------------------------------------------------------------------------

const CANCEL = statement(
  "job_cancel",
  `WITH row AS (
     UPDATE tasks t SET status = 'cancelled', error = :error, finished_at = COALESCE(:now::timestamptz, now()), parked = NULL,
       available_at = NULL
     WHERE t.id = :row RETURNING ${ENTRY("t")}
   ), unlisted AS (
     ${deleteFrom("ready_queue", "row")}
   )
   UPDATE jobs SET status = 'FAILED', updated_at = COALESCE(:now::timestamptz, now()) WHERE task_id = :row`,
)

const cancelJob = async (tx: Tx, now: string | null, id: string): Promise<JobRow | JobRejection> => {
  const found = await findOpen(tx, now, id)
  if ("rejected" in found) return found
  const { job, at, limits } = found
  if (found.live) {
    await requestStop(tx, job.row)
    return job
  }
  await tx.run(CANCEL, { now, row: job.row, error: JOB_CANCELLED })
  const released = await releaseDependents(tx, now, { completed: [], failed: [job.row] })
  const events: StoreEvent[] = [jobEvent(id, "FAILED", at, { error: JOB_CANCELLED }), ...emitReleased(released, at)]
  await logEvents(tx, events)
  await giveWay(tx, limits)
  return (await readJobs(tx, [job.row]))[0]!
}

/** A row went away without using its slots: the next one parked there has its turn. */
const giveWay = async (tx: SqlRunner, limits: readonly number[] | null): Promise<void> => {
  const freed = new FreedSlots()
  freed.addUnparks(limits)
  await freed.apply(tx)
}

const DEPENDENTS = statement("job_dependents", "SELECT 1 FROM job_edges WHERE dependency = :row LIMIT 1")
const DELETE = statement("job_delete", "DELETE FROM jobs WHERE task_id = :row")

/** The row of a live attempt stays, under another name, until that has ended. */
const ORPHAN = statement("job_orphan", "UPDATE tasks SET path = path || ' ' || attempt_id WHERE id = :row")

const deleteJob = async (tx: SqlRunner, id: string): Promise<JobRejection | null> => {
  const found = await find(tx, null, id)
  if (found === null) return { rejected: "not_found" }
  const { row } = found.job
  if ((await tx.run(DEPENDENTS, { row })).length > 0) return { rejected: "has_dependents" }
  await tx.run(DELETE, { row })
  await removeEdges(tx, row)
  if (found.live) {
    await requestStop(tx, row)
    await tx.run(ORPHAN, { row })
    return null
  }
  await forgetJobs(tx, [row])
  if (found.waits) await giveWay(tx, found.limits)
  return null
}

const EXPIRED = statement(
  "jobs_expired",
  `SELECT id FROM jobs j
   WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND updated_at < ${NOW} - :olderThanMs * interval '1 ms'
     AND NOT EXISTS (SELECT 1 FROM job_edges WHERE dependency = j.task_id)
   ORDER BY task_id LIMIT :limit::int`,
)

const expiredJobs = async (
  session: SqlRunner,
  now: string | null,
  query: { olderThanMs: number; limit: number },
): Promise<string[]> => (await session.run<{ id: string }>(EXPIRED, { now, ...query })).map(({ id }) => id)
