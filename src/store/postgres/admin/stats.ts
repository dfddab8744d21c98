// How much there is to do, and who holds the slots of a limit: read from the indexes of what has not ended.

import { queueLimitKey } from "../../../core/routing/lanes.ts"
import { taskDisplayName } from "../../../core/model/task-path.ts"
import { taskOfLimit } from "../../../core/rules/new-rows.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { StatsStore, Stats } from "../../contract/stats.ts"
import type { Advanced } from "../../contract/store.ts"
import type { Access } from "../tx.ts"
import { markTask } from "../runs/override-outcome.ts"
import { listQueues } from "./queues.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../cache/workflows.ts"

/** `closed` hears of runs that a mark ended. */
export const insight = (
  { read, writeAndNotify, clock, workflows }: Access,
  closed: (runs: Advanced["closed"]) => void,
): StatsStore => ({
  overrideOutcome: async (mark) => {
    const marked = await writeAndNotify((tx) => markTask(tx, mark))
    closed(marked.closed)
    return marked.answer
  },
  limitHolders: async (key, limit) => {
    const holders = await read((session) => limitHolders(session, key, limit))
    await workflows.load(holders.flatMap(({ version_id }) => version_id ?? []))
    return holders.map((holder) => nameOf(workflows, holder))
  },
  stats: () => read((session) => stats(session, clock.now(), workflows)),
})

const LIVE = "t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL"

/** Finds the rows in flight first, through their own table, so that the query does not read finished rows. */
const HOLDERS = (condition: string): string => `
  WITH live AS MATERIALIZED (SELECT t.id, t.run_seq, t.node, t.path FROM ${IN_FLIGHT_ROWS()} WHERE ${LIVE} AND ${condition})
  SELECT l.node, l.path, r.version_id, j.name AS job
  FROM (SELECT * FROM live ORDER BY id LIMIT :limit::int) l
  LEFT JOIN runs r ON r.seq = l.run_seq LEFT JOIN jobs j ON j.task_id = l.id ORDER BY l.id`

const LIMIT_HOLDERS = statement("limit_holders", HOLDERS("t.limits @> ARRAY[(SELECT l.id FROM limits l WHERE l.key = :key)]"))

/** An open group uses a slot of its own limit. */
const OPEN_GROUPS = statement(
  "group_holders",
  `SELECT t.node, t.path, r.version_id, NULL AS job FROM runs r JOIN tasks t ON t.run_seq = r.seq AND t.node = :node::int
   WHERE r.id = :runId::uuid AND t.kind = 'group' AND t.started_at IS NOT NULL AND t.finished_at IS NULL ORDER BY t.id LIMIT :limit::int`,
)

const QUEUE_HOLDERS = statement(
  "queue_holders",
  HOLDERS(
    "(t.lane = :key::text OR starts_with(t.lane, :key || '|') OR t.lane IN ('h' || substr(:key, 2), 's' || substr(:key, 2)) OR starts_with(t.lane, 'f' || substr(:key, 2) || '|'))",
  ),
)

interface Holder {
  node: number
  path: string
  version_id: number | null
  job: string | null
}

const limitHolders = async (session: SqlRunner, key: string, limit: number): Promise<Holder[]> => {
  const task = taskOfLimit(key)
  const live = await session.run<Holder>(key.startsWith(queueLimitKey("")) ? QUEUE_HOLDERS : LIMIT_HOLDERS, { key, limit })
  return task === null
    ? live
    : [...live, ...(await session.run<Holder>(OPEN_GROUPS, { runId: task.runId, node: task.node, limit }))]
}

const nameOf = (workflows: Workflows, { node, path, version_id, job }: Holder): string => {
  if (version_id === null) return job ?? path
  return taskDisplayName(workflows.now(version_id).nodes[node]!.name, path)
}

const RUNS = statement(
  "stats_runs",
  "SELECT status, count(*)::int AS count FROM runs WHERE status IN ('pending', 'running') GROUP BY status",
)

const RUNNING = statement(
  "stats_running",
  `SELECT count(*)::int AS running, pg_database_size(current_database()) AS bytes FROM ${IN_FLIGHT_ROWS()} WHERE ${LIVE} AND t.kind = 'task'`,
)

const stats = async (session: SqlRunner, now: string | null, workflows: Workflows): Promise<Stats> => {
  const counted = session.run<{ status: RunStatus; count: number }>(RUNS)
  const live = session.run<{ running: number; bytes: number }>(RUNNING)
  const runs = new Map((await counted).map(({ status, count }) => [status, count]))
  const { running, bytes } = (await live)[0]!
  const ready = (await listQueues(session, now, workflows)).filter((queue) => queue.ready > 0)
  const ages = ready.flatMap(({ oldestReadyMs }) => oldestReadyMs ?? [])
  return {
    runs: { pending: runs.get("pending") ?? 0, running: runs.get("running") ?? 0 },
    ready: ready.map(({ name, ready: count }) => ({ queue: name, count })),
    running,
    oldestReadyMs: ages.length === 0 ? null : Math.max(...ages),
    databaseBytes: bytes,
  }
}
