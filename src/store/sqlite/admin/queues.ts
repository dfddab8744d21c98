// Reads and changes queues. A queue is listed when it has settings, ready rows, attempts in flight or jobs, finished ones too.

import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { queueLimitKey } from "../../../core/routing/limit-keys.ts"
import type { QueueRow, QueueSettings, QueueStore } from "../../contract/queues.ts"
import { IN_QUEUE, type LaneCount, QUEUE_COLUMNS, type QueueColumns, queuesOf, settingsOf } from "../../shared/queue-rows.ts"
import { oldestReady, type ReadyLane } from "./ready-age.ts"
import { READY } from "../claim/ready-queue.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const queueStore = ({ read, write }: Access): QueueStore => ({
  getQueue: (name) => read((s) => listQueues(s).find((queue) => queue.name === name) ?? null),
  listQueues: () => read(listQueues),
  putQueue: (name, settings) => write((tx) => putQueue(tx, name, settings)),
})

const SETTINGS = `SELECT ${QUEUE_COLUMNS} FROM queues`

const READY_BY_LANE = `
SELECT lane, count(*) AS count, min(iif(run_seq <> ${JOB_RUN_SEQ}, run_seq, NULL)) AS "runSeq", min(iif(run_seq = ${JOB_RUN_SEQ}, id, NULL)) AS job
FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND ${IN_QUEUE} GROUP BY lane`

const RUNNING_BY_LANE = `
SELECT lane, count(*) AS count FROM tasks INDEXED BY tasks_in_flight
WHERE holder IS NOT NULL AND status IN ('dispatched', 'running') AND waiting_on IS NULL AND ${IN_QUEUE} GROUP BY lane`

/** Finds each queue in the index once, however many jobs it has. */
export const QUEUES_OF_JOBS = `
WITH RECURSIVE names (name) AS (
  SELECT min(queue) FROM jobs
  UNION ALL SELECT (SELECT min(queue) FROM jobs WHERE queue > n.name) FROM names n WHERE n.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL`

/** Returns the queues that have jobs. */
export const queuesOfJobs = ({ db }: StoreContext): string[] => db.all<[string]>(QUEUES_OF_JOBS).map(([name]) => name)

export const listQueues = (context: StoreContext): QueueRow[] => {
  const { db, clock } = context
  const ready = db.list<LaneCount & ReadyLane>(READY_BY_LANE).map((lane) => {
    const since = oldestReady(context, lane)
    return { ...lane, ageMs: since === null ? null : clock.now() - since }
  })
  return queuesOf(db.list<QueueColumns>(SETTINGS), ready, db.list<LaneCount>(RUNNING_BY_LANE), queuesOfJobs(context))
}

const GET = `${SETTINGS} WHERE name = ?`

const PUT = `
INSERT INTO queues (name, concurrency, rate_limit, rate_period_ms, paused, tokens, refilled_at) VALUES (?1, ?2, ?3, ?4, ?5, coalesce(?3, 0), ?6)
ON CONFLICT (name) DO UPDATE SET concurrency = ?2, rate_limit = ?3, rate_period_ms = ?4, paused = ?5,
  tokens = iif(rate_limit IS ?3 AND rate_period_ms IS ?4, tokens, coalesce(?3, 0)),
  refilled_at = iif(rate_limit IS ?3 AND rate_period_ms IS ?4, refilled_at, ?6)`

const SET_LIMIT = `
INSERT INTO limits (key, cap, used) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET cap = ?2, used = ?3`

const DELETE_LIMIT = "DELETE FROM limits WHERE key = ?"

/** Changes the settings. A new limit counts the attempts in flight, so that it holds at once and each finish frees its slot. */
const putQueue = (tx: Tx, name: string, change: Partial<QueueSettings>): QueueRow => {
  const before = tx.db.find<QueueColumns>(GET, name)
  const { concurrency, rate, paused } = { ...settingsOf(before), ...change }
  tx.db.run(PUT, name, concurrency, rate?.limit ?? null, rate?.periodMs ?? null, paused ? 1 : 0, tx.at)
  const row = listQueues(tx).find((queue) => queue.name === name)!
  if (concurrency === null) tx.db.run(DELETE_LIMIT, queueLimitKey(name))
  else tx.db.run(SET_LIMIT, queueLimitKey(name), concurrency, row.running)
  tx.wake.noteWorkLeft()
  return row
}
