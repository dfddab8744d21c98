// Statistics and users of slots, read from the tables and indexes of unfinished rows.

import { lanesOfQueue } from "../../../core/routing/lanes.ts"
import { queueOfLimit, taskOfLimit } from "../../../core/routing/limit-keys.ts"
import { taskDisplayName } from "../../../core/model/task-path.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { ActivityMinute, FinishedRun, StatsStore, Stats } from "../../contract/stats.ts"
import type { AdvanceResult } from "../../contract/store.ts"
import { statsOf } from "../../shared/queue-rows.ts"
import type { Access } from "../tx.ts"
import { overrideOutcome } from "../runs/override-outcome.ts"
import { listQueues } from "./queues.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { nodeOf, type Workflows } from "../cache/workflows.ts"

/** Reads statistics. `reportClosed` receives the runs that an override closed. */
export const statsStore = (
  { read, write, writeAndNotify, workflows }: Access,
  reportClosed: (runs: AdvanceResult["closed"]) => void,
): StatsStore => ({
  overrideOutcome: async (override) => {
    const { result, closed } = await writeAndNotify((tx) => overrideOutcome(tx, override))
    reportClosed(closed)
    return result
  },
  slotUsers: async (key, limit) => {
    const holders = await read((connection) => slotUsers(connection, key, limit))
    await workflows.load(holders.flatMap(({ version_id }) => version_id ?? []))
    return holders.map((holder) => nameOf(workflows, holder))
  },
  stats: () => read((connection) => stats(connection, workflows)),
  countActiveRuns: () => read((connection) => connection.run(ACTIVE_RUNS)),
  listFinishedRuns: (query) => read((connection) => connection.run<FinishedRun>(FINISHED_RUNS, query)),
  addActivity: (minutes, keptMinutes) => write((tx) => addActivity(tx, minutes, keptMinutes)),
  listActivity: (since) => read((connection) => connection.run<ActivityMinute>(LIST_ACTIVITY, { since })),
})

const ACTIVE_RUNS = statement(
  "stats_active_runs",
  `SELECT w.name AS workflow, r.status, r.count
   FROM (SELECT workflow_id, status, count(*)::int AS count FROM runs WHERE status IN ('pending', 'running') GROUP BY 1, 2) r
   JOIN workflows w ON w.id = r.workflow_id`,
)

const FINISHED_RUNS = statement(
  "stats_finished_runs",
  `SELECT w.name AS workflow, r.status, r.started_at AS "startedAt", r.finished_at AS "finishedAt", r.idle_ms AS "idleMs"
   FROM runs r JOIN workflows w ON w.id = r.workflow_id
   WHERE r.finished_at > :after::timestamptz AND r.finished_at <= :until::timestamptz ORDER BY r.finished_at LIMIT :limit::int`,
)

const ADD_ACTIVITY = statement(
  "activity_add",
  `WITH forgotten AS (DELETE FROM activity WHERE minute <= :forgotten::int)
   INSERT INTO activity AS a (minute, success, failed, dispatch_p50_ms, dispatch_p95_ms, ready, running)
   SELECT * FROM unnest(:minutes::int[], :successes::int[], :failures::int[], :p50s::int[], :p95s::int[], :ready::int[], :running::int[])
   ORDER BY 1
   ON CONFLICT (minute) DO UPDATE SET success = a.success + excluded.success, failed = a.failed + excluded.failed,
     dispatch_p50_ms = GREATEST(a.dispatch_p50_ms, excluded.dispatch_p50_ms),
     dispatch_p95_ms = GREATEST(a.dispatch_p95_ms, excluded.dispatch_p95_ms),
     ready = COALESCE(excluded.ready, a.ready), running = COALESCE(excluded.running, a.running)`,
)

const LIST_ACTIVITY = statement(
  "activity_list",
  `SELECT minute, success, failed, dispatch_p50_ms AS "dispatchP50Ms", dispatch_p95_ms AS "dispatchP95Ms", ready, running
   FROM activity WHERE minute >= :since::int ORDER BY minute`,
)

const addActivity = async (tx: SqlRunner, minutes: readonly ActivityMinute[], keptMinutes: number): Promise<void> => {
  await tx.run(ADD_ACTIVITY, {
    minutes: minutes.map(({ minute }) => minute),
    successes: minutes.map(({ success }) => success),
    failures: minutes.map(({ failed }) => failed),
    p50s: minutes.map(({ dispatchP50Ms }) => dispatchP50Ms),
    p95s: minutes.map(({ dispatchP95Ms }) => dispatchP95Ms),
    ready: minutes.map(({ ready }) => ready),
    running: minutes.map(({ running }) => running),
    forgotten: Math.max(...minutes.map(({ minute }) => minute)) - keptMinutes,
  })
}

const USES_SLOTS = "t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL"

/** Finds the rows in flight first, through their own table, so that the query does not read finished rows. */
const SLOT_USERS = (condition: string): string => `
  WITH in_flight_rows AS MATERIALIZED (SELECT t.id, t.run_seq, t.node, t.path FROM ${IN_FLIGHT_ROWS()} WHERE ${USES_SLOTS} AND ${condition})
  SELECT l.node, l.path, r.version_id, j.name AS job
  FROM (SELECT * FROM in_flight_rows ORDER BY id LIMIT :limit::int) l
  LEFT JOIN runs r ON r.seq = l.run_seq LEFT JOIN jobs j ON j.task_id = l.id ORDER BY l.id`

const USERS_OF_LIMIT = statement(
  "slot_users_of_limit",
  SLOT_USERS("t.limits @> ARRAY[(SELECT l.id FROM limits l WHERE l.key = :key)]"),
)

/** A group uses slots of its own limit while it is open. */
const OPEN_GROUPS = statement(
  "slot_users_open_groups",
  `SELECT t.node, t.path, r.version_id, NULL AS job FROM runs r JOIN tasks t ON t.run_seq = r.seq AND t.node = :node::int
   WHERE r.id = :runId::uuid AND t.kind = 'group' AND t.started_at IS NOT NULL AND t.finished_at IS NULL ORDER BY t.id LIMIT :limit::int`,
)

const USERS_OF_QUEUE = statement(
  "slot_users_of_queue",
  SLOT_USERS("(t.lane = ANY (:lanes::text[]) OR t.lane ^@ ANY (:prefixes::text[]))"),
)

interface SlotUser {
  node: number
  path: string
  version_id: number | null
  job: string | null
}

const slotUsers = async (connection: SqlRunner, key: string, limit: number): Promise<SlotUser[]> => {
  const task = taskOfLimit(key)
  const queue = queueOfLimit(key)
  const tasks =
    queue === null
      ? await connection.run<SlotUser>(USERS_OF_LIMIT, { key, limit })
      : await connection.run<SlotUser>(USERS_OF_QUEUE, { ...lanesOfQueue(queue), limit })
  const groups = task === null ? [] : await connection.run<SlotUser>(OPEN_GROUPS, { runId: task.runId, node: task.node, limit })
  return [...tasks, ...groups]
}

const nameOf = (workflows: Workflows, { node, path, version_id, job }: SlotUser): string => {
  if (version_id === null) return job ?? path
  return taskDisplayName(nodeOf(workflows, { versionId: version_id, node }).name, path)
}

const RUNS = statement(
  "stats_runs",
  "SELECT status, count(*)::int AS count FROM runs WHERE status IN ('pending', 'running') GROUP BY status",
)

const RUNNING = statement(
  "stats_running",
  `SELECT count(*)::int AS running, pg_database_size(current_database()) AS bytes FROM ${IN_FLIGHT_ROWS()} WHERE ${USES_SLOTS} AND t.kind = 'task'`,
)

const stats = async (connection: SqlRunner, workflows: Workflows): Promise<Stats> => {
  const counted = connection.run<{ status: RunStatus; count: number }>(RUNS)
  const inFlight = connection.run<{ running: number; bytes: number }>(RUNNING)
  const runs = new Map((await counted).map(({ status, count }) => [status, count]))
  const { running, bytes } = (await inFlight)[0]!
  return statsOf(runs, await listQueues(connection, workflows), { running, databaseBytes: bytes })
}
