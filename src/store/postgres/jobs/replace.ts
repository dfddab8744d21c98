// Replaces jobs that have not started by new ones with the same key. Their ids and dependencies stay.

import type { NewJob } from "../../contract/jobs.ts"
import { jobEvent } from "../../shared/events.ts"
import { jobGroupNumber, HAS_NOT_STARTED, jobLane, jobLimits, settingsColumn } from "../../shared/job-rows.ts"
import { ensureLimits, FreedSlots } from "../claim/limits.ts"
import { deleteFrom, ENTRY, insertInto, READINESS } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { AVAILABLE_AT, deleteExpiry, setExpiry } from "./times.ts"

const LOCK = statement("job_replace_lock", `SELECT t.limits FROM tasks t WHERE t.id = :row AND ${HAS_NOT_STARTED} FOR UPDATE`)

const WRITE = statement(
  "job_replace",
  `WITH before AS MATERIALIZED (SELECT ${ENTRY("t")} FROM tasks t WHERE t.id = :row), row AS (
     UPDATE tasks t SET lane = :lane, priority = :priority::smallint, workflow_id = :jobGroupNumber::bigint, limits = :limits::bigint[],
       parked = NULL, available_at = ${AVAILABLE_AT(":runAt::timestamptz", ":delayMs::bigint")}
     FROM before b WHERE t.id = b.id RETURNING ${READINESS("t")}, t.upstream_pending, t.available_at
   ), dequeued AS (
     ${deleteFrom("ready_queue", "before")}
   ), enqueued AS (
     ${insertInto("ready_queue", "row")}
   )
   UPDATE jobs j SET queue = :queue, payload = :payload, priority = :priority::smallint, concurrency_key = :concurrencyKey,
     retry_policy = :retryPolicy, task = :task, settings = :settings, expires_ms = :expiresMs::bigint, updated_at = ${NOW}
   FROM row r WHERE j.task_id = r.id
   RETURNING j.id, j.status, r.upstream_pending = 0 AS ready, r.available_at, ${NOW}::timestamptz(3) AS at`,
)

type Written = { id: string; status: "PENDING" | "READY"; ready: boolean; available_at: string | null; at: string }

/** Gives a job new settings. Does nothing when it has started or finished. The caller has called `lockTasksForWrite`. */
export const replaceJob = async (tx: Tx, row: number, by: NewJob): Promise<void> => {
  const [before] = await tx.run<{ limits: number[] | null }>(LOCK, { row })
  if (before === undefined) return
  const limits = [...(await ensureLimits(tx, jobLimits(by))).values()]
  const freed = new FreedSlots()
  freed.unparkInPlaceOf(before.limits)
  const [written] = await tx.run<Written>(WRITE, {
    row,
    lane: jobLane(by),
    priority: by.priority,
    jobGroupNumber: jobGroupNumber(by),
    limits: limits.length === 0 ? null : limits,
    runAt: by.runAt,
    delayMs: by.delayMs,
    queue: by.queue,
    payload: JSON.stringify(by.payload),
    concurrencyKey: by.concurrencyKey,
    retryPolicy: JSON.stringify(by.retryPolicy),
    task: by.task === null ? null : JSON.stringify(by.task),
    settings: settingsColumn(by),
    expiresMs: by.expiresMs,
  })
  const { id, status, ready, available_at: availableAt, at } = written!
  await deleteExpiry(tx, row)
  if (ready) await setExpiry(tx, [row])
  tx.events.push(jobEvent({ id, name: by.name, queue: by.queue }, status, { at, availableAt }))
  await freed.apply(tx)
}
