// Queues as people see and set them. A queue is known by its settings, or by work that it has.

import { queueLimitKey, queueOfLane } from "../../../core/routing/lanes.ts"
import type { QueueRow, QueueSettings, QueueStore } from "../../contract/queues.ts"
import type { Access } from "../tx.ts"
import { excludeTaskWrites } from "../claim/queue-limits.ts"
import { oldestReady, type ReadyLane } from "./ready-age.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../cache/workflows.ts"

export const queueStore = ({ read, writeAndNotify, clock, workflows }: Access): QueueStore => {
  const list = (session: SqlRunner): Promise<QueueRow[]> => listQueues(session, clock.now(), workflows)
  const one = async (session: SqlRunner, name: string): Promise<QueueRow | null> =>
    (await list(session)).find((queue) => queue.name === name) ?? null
  return {
    getQueue: (name) => read((session) => one(session, name)),
    listQueues: () => read(list),
    putQueue: (name, settings) =>
      writeAndNotify(async (tx) => {
        await putQueue(tx, clock.now(), name, settings)
        const row = (await one(tx, name))!
        await count(tx, row)
        return row
      }),
  }
}

const SETTINGS = statement("queues_settings", "SELECT name, concurrency, rate_limit, rate_period_ms, paused FROM queues")

interface Columns {
  name: string
  concurrency: number | null
  rate_limit: number | null
  rate_period_ms: number | null
  paused: boolean
}

const settingsOf = ({ concurrency, rate_limit: limit, rate_period_ms: periodMs, paused }: Columns): QueueSettings => ({
  concurrency,
  rate: limit === null || periodMs === null ? null : { limit, periodMs },
  paused,
})

const SHARED = "(lane > 'q:' AND lane < 's;' OR lane > 'h:' AND lane < 'h;' OR lane > 'f:' AND lane < 'f;')"

const READY_BY_LANE = statement(
  "queues_ready",
  `SELECT lane, count(*)::int AS count, min(run_seq) FILTER (WHERE run_seq > 0) AS "runSeq",
     min(id) FILTER (WHERE run_seq = 0) AS job, COALESCE(:now::timestamptz, now())::timestamptz(3) AS now
   FROM ready_queue WHERE ${SHARED} GROUP BY lane`,
)

const RUNNING_BY_LANE = statement(
  "queues_running",
  `SELECT t.lane, count(*)::int AS count FROM ${IN_FLIGHT_ROWS()}
   WHERE t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL AND ${SHARED} GROUP BY t.lane`,
)

const NONE: QueueSettings = { concurrency: null, rate: null, paused: false }

export const listQueues = async (session: SqlRunner, now: string | null, workflows: Workflows): Promise<QueueRow[]> => {
  const settings = session.run<Columns>(SETTINGS)
  const ready = pipelined(session.run<ReadyLane & { count: number; now: string }>(READY_BY_LANE, { now }))
  const running = pipelined(session.run<{ lane: string; count: number }>(RUNNING_BY_LANE))
  const queues = new Map<string, QueueRow>()
  const add = (name: string, given: QueueSettings): QueueRow => {
    const row = { name, ...given, ready: 0, running: 0, oldestReadyMs: null }
    queues.set(name, row)
    return row
  }
  const of = (lane: string): QueueRow => queues.get(queueOfLane(lane)!) ?? add(queueOfLane(lane)!, NONE)
  for (const columns of await settings) add(columns.name, settingsOf(columns))
  for (const lane of await ready) {
    const row = of(lane.lane)
    row.ready += lane.count
    const since = await oldestReady(session, workflows, lane)
    if (since !== null) row.oldestReadyMs = Math.max(row.oldestReadyMs ?? 0, Date.parse(lane.now) - since)
  }
  for (const { lane, count: live } of await running) of(lane).running += live
  return [...queues.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

const GET = statement(
  "queue_get",
  "SELECT name, concurrency, rate_limit, rate_period_ms, paused FROM queues WHERE name = :name FOR UPDATE",
)

const PUT = statement(
  "queue_put",
  `INSERT INTO queues AS q (name, concurrency, rate_limit, rate_period_ms, paused, tokens, refilled_at)
   VALUES (:name, :concurrency::int, :limit::int, :periodMs::bigint, :paused, COALESCE(:limit::int, 0), COALESCE(:now::timestamptz, now()))
   ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency, rate_limit = excluded.rate_limit,
     rate_period_ms = excluded.rate_period_ms, paused = excluded.paused,
     tokens = CASE WHEN (q.rate_limit, q.rate_period_ms) IS NOT DISTINCT FROM (excluded.rate_limit, excluded.rate_period_ms)
       THEN q.tokens ELSE excluded.tokens END,
     refilled_at = CASE WHEN (q.rate_limit, q.rate_period_ms) IS NOT DISTINCT FROM (excluded.rate_limit, excluded.rate_period_ms)
       THEN q.refilled_at ELSE excluded.refilled_at END`,
)

const putQueue = async (tx: SqlRunner, now: string | null, name: string, change: Partial<QueueSettings>): Promise<void> => {
  await excludeTaskWrites(tx)
  const [before] = await tx.run<Columns>(GET, { name })
  const { concurrency, rate, paused } = { ...(before === undefined ? NONE : settingsOf(before)), ...change }
  await tx.run(PUT, { now, name, concurrency, limit: rate?.limit ?? null, periodMs: rate?.periodMs ?? null, paused })
}

const COUNT = statement(
  "queue_count",
  "INSERT INTO limits (key, cap, used) VALUES (:key, :concurrency, :running) ON CONFLICT (key) DO UPDATE SET cap = :concurrency, used = :running",
)

const FORGET = statement("queue_forget", "DELETE FROM limits WHERE key = :key")

/** What runs already counts from the start: so the limit holds at once, and every end frees what was counted. */
const count = async (tx: SqlRunner, { name, concurrency, running }: QueueRow): Promise<void> => {
  if (concurrency === null) await tx.run(FORGET, { key: queueLimitKey(name) })
  else await tx.run(COUNT, { key: queueLimitKey(name), concurrency, running })
}
