// Reads and changes queues. A queue is listed when it has settings, ready rows or attempts in flight.

import { queueOfLane } from "../../../core/routing/lanes.ts"
import { queueLimitKey } from "../../../core/routing/limit-keys.ts"
import type { QueueRow, QueueSettings, QueueStore } from "../../contract/queues.ts"
import { oldestReady } from "./ready-age.ts"
import { READY } from "../claim/ready-queue.ts"
import type { Access, Session, Tx } from "../tx.ts"

export const queueStore = ({ read, write }: Access): QueueStore => ({
  getQueue: (name) => read((s) => listQueues(s).find((queue) => queue.name === name) ?? null),
  listQueues: () => read(listQueues),
  putQueue: (name, settings) => write((tx) => putQueue(tx, name, settings)),
})

const SETTINGS = "SELECT name, concurrency, rate_limit, rate_period_ms, paused FROM queues"

type Columns = [string, number | null, number | null, number | null, number]

const settingsOf = ([, concurrency, limit, periodMs, paused]: Columns): QueueSettings => ({
  concurrency,
  rate: limit === null || periodMs === null ? null : { limit, periodMs },
  paused: paused === 1,
})

/** Condition: the lane belongs to a queue, not to a private run or the gate. */
const IN_QUEUE = "(lane > 'q:' AND lane < 's;' OR lane > 'h:' AND lane < 'h;' OR lane > 'f:' AND lane < 'f;')"

const READY_BY_LANE = `
SELECT lane, count(*), min(iif(run_seq > 0, run_seq, NULL)), min(iif(run_seq = 0, id, NULL))
FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND ${IN_QUEUE} GROUP BY lane`

const RUNNING_BY_LANE = `
SELECT lane, count(*) FROM tasks INDEXED BY tasks_in_flight
WHERE holder IS NOT NULL AND status IN ('dispatched', 'running') AND waiting_on IS NULL AND ${IN_QUEUE} GROUP BY lane`

const NONE: QueueSettings = { concurrency: null, rate: null, paused: false }

export const listQueues = (session: Session): QueueRow[] => {
  const queues = new Map<string, QueueRow>()
  const add = (name: string, settings: QueueSettings): QueueRow => {
    const row = { name, ...settings, ready: 0, running: 0, oldestReadyMs: null }
    queues.set(name, row)
    return row
  }
  const ofLane = (lane: string): QueueRow => queues.get(queueOfLane(lane)!) ?? add(queueOfLane(lane)!, NONE)
  for (const columns of session.db.all<Columns>(SETTINGS)) add(columns[0], settingsOf(columns))
  for (const [lane, count, runSeq, job] of session.db.all<[string, number, number | null, number | null]>(READY_BY_LANE)) {
    const row = ofLane(lane)
    row.ready += count
    const since = oldestReady(session, lane, runSeq, job)
    if (since !== null) row.oldestReadyMs = Math.max(row.oldestReadyMs ?? 0, session.clock.now() - since)
  }
  for (const [lane, count] of session.db.all<[string, number]>(RUNNING_BY_LANE)) ofLane(lane).running += count
  return [...queues.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
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
  const before = tx.db.get<Columns>(GET, name)
  const { concurrency, rate, paused } = { ...(before === undefined ? NONE : settingsOf(before)), ...change }
  tx.db.run(PUT, name, concurrency, rate?.limit ?? null, rate?.periodMs ?? null, paused ? 1 : 0, tx.at)
  const row = listQueues(tx).find((queue) => queue.name === name)!
  if (concurrency === null) tx.db.run(DELETE_LIMIT, queueLimitKey(name))
  else tx.db.run(SET_LIMIT, queueLimitKey(name), concurrency, row.running)
  tx.wakeOthers = true
  return row
}
