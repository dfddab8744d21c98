// Statistics and users of slots, read from the indexes of unfinished rows.

import { lanesOfQueue } from "../../../core/routing/lanes.ts"
import { queueOfLimit, taskOfLimit } from "../../../core/routing/limit-keys.ts"
import { taskDisplayName } from "../../../core/model/task-path.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { ActivityMinute, FinishedRun, StatsStore, Stats } from "../../contract/stats.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { statsOf } from "../../shared/queue-rows.ts"
import { overrideOutcome } from "../runs/override-outcome.ts"
import { listQueues } from "./queues.ts"
import { nodeOf } from "../cache/workflows.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const statsStore = ({ read, write }: Access): StatsStore => ({
  overrideOutcome: (input) => write((tx) => overrideOutcome(tx, input)),
  slotUsers: (key, limit) => read((s) => slotUsers(s, key, limit)),
  stats: () => read(stats),
  countActiveRuns: () => read((s) => s.db.list(ACTIVE_RUNS)),
  listFinishedRuns: ({ after, until, limit }) => read((s) => s.db.list<FinishedRun>(FINISHED_RUNS, after, until, limit)),
  addActivity: (minutes, keptMinutes) => write((tx) => addActivity(tx, minutes, keptMinutes)),
  listActivity: (since) => read((s) => s.db.list<ActivityMinute>(LIST_ACTIVITY, since)),
})

const ACTIVE_RUNS = `
SELECT w.name AS workflow, r.status, count(*) AS count FROM runs r INDEXED BY runs_active JOIN workflows w ON w.id = r.workflow_id
WHERE r.finished_at IS NULL GROUP BY r.workflow_id, r.status`

const FINISHED_RUNS = `
SELECT w.name AS workflow, r.status, r.started_at AS "startedAt", r.finished_at AS "finishedAt", r.idle_ms AS "idleMs"
FROM runs r INDEXED BY runs_finished JOIN workflows w ON w.id = r.workflow_id
WHERE r.finished_at IS NOT NULL AND r.finished_at > ? AND r.finished_at <= ? ORDER BY r.finished_at LIMIT ? + 0`

const IN_FLIGHT =
  "FROM tasks t INDEXED BY tasks_in_flight WHERE t.holder IS NOT NULL AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL"

const USERS_OF_LIMIT = `
SELECT t.run_seq, t.node, t.path, t.id ${IN_FLIGHT}
  AND EXISTS (SELECT 1 FROM json_each(t.limits) slot JOIN limits l ON l.id = slot.value WHERE l.key = ?1)
ORDER BY t.id LIMIT ?2 + 0`

const USERS_OF_QUEUE = `
SELECT t.run_seq, t.node, t.path, t.id ${IN_FLIGHT} AND (t.lane IN (SELECT value FROM json_each(?1))
  OR EXISTS (SELECT 1 FROM json_each(?2) AS prefix WHERE instr(t.lane, prefix.value) = 1))
ORDER BY t.id LIMIT ?3 + 0`

/** A group uses slots of its own limit while it is open. */
const OPEN_GROUPS = `
SELECT t.run_seq, t.node, t.path, t.id FROM runs r CROSS JOIN tasks t ON t.run_seq = r.seq AND t.node = ?2
WHERE r.id = ?1 AND t.kind = 'group' AND t.started_at IS NOT NULL AND t.finished_at IS NULL
ORDER BY t.id LIMIT ?3 + 0`

const JOB_NAME = "SELECT name FROM jobs WHERE task_id = ?"

type SlotUser = [runSeq: number, node: number, path: string, row: number]

const slotUsers = (context: StoreContext, key: string, limit: number): string[] => {
  const { db } = context
  const task = taskOfLimit(key)
  const queue = queueOfLimit(key)
  const tasks = queue === null ? db.all<SlotUser>(USERS_OF_LIMIT, key, limit) : usersOfQueue(context, queue, limit)
  const groups = task === null ? [] : db.all<SlotUser>(OPEN_GROUPS, task.runId, task.node, limit)
  return [...tasks, ...groups].map(([runSeq, node, path, row]) => {
    if (isJobRow(runSeq)) return db.get<[string]>(JOB_NAME, row)![0]
    return taskDisplayName(nodeOf(context, { runSeq, node }).name, path)
  })
}

const usersOfQueue = ({ db }: StoreContext, queue: string, limit: number): SlotUser[] => {
  const { lanes, prefixes } = lanesOfQueue(queue)
  return db.all<SlotUser>(USERS_OF_QUEUE, JSON.stringify(lanes), JSON.stringify(prefixes), limit)
}

const ADD_ACTIVITY = `
INSERT INTO activity (minute, success, failed, dispatch_p50_ms, dispatch_p95_ms, ready, running) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (minute) DO UPDATE SET success = success + excluded.success, failed = failed + excluded.failed,
  dispatch_p50_ms = max(coalesce(dispatch_p50_ms, excluded.dispatch_p50_ms), coalesce(excluded.dispatch_p50_ms, dispatch_p50_ms)),
  dispatch_p95_ms = max(coalesce(dispatch_p95_ms, excluded.dispatch_p95_ms), coalesce(excluded.dispatch_p95_ms, dispatch_p95_ms)),
  ready = coalesce(excluded.ready, ready), running = coalesce(excluded.running, running)`

const FORGET_ACTIVITY = "DELETE FROM activity WHERE minute <= ?"

const LIST_ACTIVITY = `
SELECT minute, success, failed, dispatch_p50_ms AS "dispatchP50Ms", dispatch_p95_ms AS "dispatchP95Ms", ready, running
FROM activity WHERE minute >= ? ORDER BY minute`

const addActivity = (tx: Tx, minutes: readonly ActivityMinute[], keptMinutes: number): void => {
  for (const { minute, success, failed, dispatchP50Ms, dispatchP95Ms, ready, running } of minutes) {
    tx.db.run(ADD_ACTIVITY, minute, success, failed, dispatchP50Ms, dispatchP95Ms, ready, running)
  }
  tx.db.run(FORGET_ACTIVITY, Math.max(...minutes.map(({ minute }) => minute)) - keptMinutes)
}

const RUNS = "SELECT status, count(*) FROM runs INDEXED BY runs_active WHERE finished_at IS NULL GROUP BY status"

const RUNNING = `SELECT count(*) ${IN_FLIGHT} AND t.kind = 'task'`

const BYTES = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"

const stats = (context: StoreContext): Stats =>
  statsOf(new Map(context.db.all<[RunStatus, number]>(RUNS)), listQueues(context), {
    running: context.db.get<[number]>(RUNNING)![0],
    databaseBytes: context.db.get<[number]>(BYTES)![0],
  })
