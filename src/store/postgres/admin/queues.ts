// Reads and changes queues. A queue is listed when it has settings, jobs, ready rows or attempts in flight.

import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { queueLimitKey } from "../../../core/routing/limit-keys.ts"
import type { QueueRow, QueueSettings, QueueStore } from "../../contract/queues.ts"
import { IN_QUEUE, type LaneCount, QUEUE_COLUMNS, type QueueColumns, queuesOf, settingsOf } from "../../shared/queue-rows.ts"
import type { Access, Tx } from "../tx.ts"
import { lockTasksAgainstWrites } from "../claim/queue-limits.ts"
import { oldestReady, type ReadyLane } from "./ready-age.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/statement.ts"
import type { Workflows } from "../cache/workflows.ts"
import { NOW } from "../connection/store-clock.ts"

export const queueStore = ({ read, writeAndNotify, workflows }: Access): QueueStore => ({
  getQueue: (name) => read((connection) => getQueue(connection, workflows, name)),
  listQueues: () => read((connection) => listQueues(connection, workflows)),
  putQueue: (name, settings) => writeAndNotify((tx) => putQueue(tx, name, settings)),
})

const SETTINGS = statement("queues_settings", `SELECT ${QUEUE_COLUMNS} FROM queues`)

const READY_BY_LANE = statement(
  "queues_ready",
  `SELECT lane, count(*)::int AS count, min(run_seq) FILTER (WHERE run_seq <> ${JOB_RUN_SEQ}) AS "runSeq",
     min(id) FILTER (WHERE run_seq = ${JOB_RUN_SEQ}) AS job, ${NOW}::timestamptz(3) AS now
   FROM ready_queue WHERE ${IN_QUEUE} GROUP BY lane`,
)

const RUNNING_BY_LANE = statement(
  "queues_running",
  `SELECT t.lane, count(*)::int AS count FROM ${IN_FLIGHT_ROWS()}
   WHERE t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL AND ${IN_QUEUE} GROUP BY t.lane`,
)

/** Finds each queue in the index once, however many jobs it has. */
const OF_JOBS = statement(
  "queues_of_jobs",
  `WITH RECURSIVE names (name) AS (
     (SELECT queue FROM jobs ORDER BY queue LIMIT 1)
     UNION ALL
     SELECT next.queue FROM names n CROSS JOIN LATERAL (SELECT queue FROM jobs WHERE queue > n.name ORDER BY queue LIMIT 1) next
   )
   SELECT name FROM names`,
)

/** Returns the queues that have jobs. */
export const queuesOfJobs = async (connection: SqlRunner): Promise<string[]> =>
  (await connection.run<{ name: string }>(OF_JOBS)).map(({ name }) => name)

export const listQueues = async (connection: SqlRunner, workflows: Workflows): Promise<QueueRow[]> => {
  const settings = connection.run<QueueColumns>(SETTINGS)
  const ready = pipelined(connection.run<ReadyLane & { count: number; now: string }>(READY_BY_LANE))
  const running = pipelined(connection.run<LaneCount>(RUNNING_BY_LANE))
  const ofJobs = pipelined(queuesOfJobs(connection))
  const lanes: LaneCount[] = []
  for (const lane of await ready) {
    const since = await oldestReady(connection, workflows, lane)
    lanes.push({ ...lane, ageMs: since === null ? null : Date.parse(lane.now) - since })
  }
  return queuesOf(await settings, lanes, await running, await ofJobs)
}

const getQueue = async (connection: SqlRunner, workflows: Workflows, name: string): Promise<QueueRow | null> =>
  (await listQueues(connection, workflows)).find((queue) => queue.name === name) ?? null

const GET = statement("queue_get", `SELECT ${QUEUE_COLUMNS} FROM queues WHERE name = :name FOR UPDATE`)

const PUT = statement(
  "queue_put",
  `INSERT INTO queues AS q (name, concurrency, rate_limit, rate_period_ms, paused, tokens, refilled_at)
   VALUES (:name, :concurrency::int, :limit::int, :periodMs::bigint, :paused, COALESCE(:limit::int, 0), ${NOW})
   ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency, rate_limit = excluded.rate_limit,
     rate_period_ms = excluded.rate_period_ms, paused = excluded.paused,
     tokens = CASE WHEN (q.rate_limit, q.rate_period_ms) IS NOT DISTINCT FROM (excluded.rate_limit, excluded.rate_period_ms)
       THEN q.tokens ELSE excluded.tokens END,
     refilled_at = CASE WHEN (q.rate_limit, q.rate_period_ms) IS NOT DISTINCT FROM (excluded.rate_limit, excluded.rate_period_ms)
       THEN q.refilled_at ELSE excluded.refilled_at END`,
)

const SET_LIMIT = statement(
  "queue_set_limit",
  `INSERT INTO limits (key, cap, used) VALUES (:key, :concurrency, :running)
   ON CONFLICT (key) DO UPDATE SET cap = :concurrency, used = :running`,
)

const DELETE_LIMIT = statement("queue_delete_limit", "DELETE FROM limits WHERE key = :key")

/**
 * Changes the settings. A new limit counts the attempts in flight, so that it holds at once and each finish frees its slot. A change of
 * the rate alone, as `Ork.open` makes it, does not wait for open transactions that create jobs.
 */
const putQueue = async (tx: Tx, name: string, change: Partial<QueueSettings>): Promise<QueueRow> => {
  const ofRateOnly = Object.keys(change).every((setting) => setting === "rate")
  if (!ofRateOnly) await lockTasksAgainstWrites(tx)
  const [before] = await tx.run<QueueColumns>(GET, { name })
  const { concurrency, rate, paused } = { ...settingsOf(before), ...change }
  await tx.run(PUT, { name, concurrency, limit: rate?.limit ?? null, periodMs: rate?.periodMs ?? null, paused })
  const row = (await getQueue(tx, tx.workflows, name))!
  if (ofRateOnly) return row
  const key = queueLimitKey(name)
  if (concurrency === null) await tx.run(DELETE_LIMIT, { key })
  else await tx.run(SET_LIMIT, { key, concurrency, running: row.running })
  return row
}
