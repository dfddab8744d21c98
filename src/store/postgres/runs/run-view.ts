// Reads for the run view, by the index of task keys.

import type { RunId } from "../../../core/model/ids.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { WaitingOn } from "../../../core/model/waiting-on.ts"
import { hasPast, type InstanceRow, type PastAttempt, type RunViewStore, type RowCount } from "../../contract/run-view.ts"
import type { Access } from "../tx.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

export const runView = ({ read }: Access): RunViewStore => ({
  listInstances: (query) => read((connection) => listInstances(connection, query)),
  countRows: (runId) => read((connection) => countRows(connection, runId)),
})

const INSTANCES = statement(
  "instances_list",
  `SELECT t.id, t.node, t.path, t.status, t.attempt, t.available_at, t.waiting_on, t.dispatched_at, t.started_at, t.finished_at
   FROM tasks t
   WHERE t.run_seq = (SELECT seq FROM runs WHERE id = :runId::uuid) AND (t.node, t.path) > (:node::int, :path::text) AND t.kind = 'task'
   ORDER BY t.run_seq, t.node, t.path LIMIT :limit::int`,
)

interface Columns {
  id: number
  node: number
  path: string
  status: TaskStatus
  attempt: number
  available_at: string | null
  waiting_on: string | null
  dispatched_at: string | null
  started_at: string | null
  finished_at: string | null
}

const PAST = statement(
  "past_attempts",
  `SELECT task_id, attempt, state, dispatched_at AS "dispatchedAt", started_at AS "startedAt", finished_at AS "finishedAt"
   FROM attempts WHERE task_id = ANY (:ids::bigint[]) ORDER BY task_id, attempt`,
)

const START = { node: -1, path: "" }

const listInstances = async (
  connection: SqlRunner,
  { runId, after = START, limit }: Parameters<RunViewStore["listInstances"]>[0],
): Promise<InstanceRow[]> => {
  const rows = await connection.run<Columns>(INSTANCES, { runId, node: after.node, path: after.path, limit })
  const retried = rows.filter(hasPast).map(({ id }) => id)
  const past = retried.length === 0 ? new Map<number, PastAttempt[]>() : await pastOf(connection, retried)
  return rows.map((c) => ({
    node: c.node,
    path: c.path,
    status: c.status,
    attempt: c.attempt,
    availableAt: c.available_at,
    waitingOn: c.waiting_on === null ? null : (JSON.parse(c.waiting_on) as WaitingOn).kind,
    dispatchedAt: c.dispatched_at,
    startedAt: c.started_at,
    finishedAt: c.finished_at,
    past: past.get(c.id) ?? [],
  }))
}

const pastOf = async (connection: SqlRunner, ids: readonly number[]): Promise<Map<number, PastAttempt[]>> => {
  const rows = await connection.run<PastAttempt & { task_id: number }>(PAST, { ids: ids })
  const attempts = rows.map(({ task_id, ...attempt }) => ({ task_id, attempt }))
  return new Map(
    [...Map.groupBy(attempts, ({ task_id }) => task_id)].map(([id, found]) => [id, found.map(({ attempt }) => attempt)]),
  )
}

const COUNTS = statement(
  "rows_count",
  `SELECT t.node, t.kind, t.status, count(*)::int AS count, min(t.started_at) AS "startedAt", max(t.finished_at) AS "finishedAt"
   FROM tasks t WHERE t.run_seq = (SELECT seq FROM runs WHERE id = :runId::uuid) GROUP BY t.node, t.kind, t.status ORDER BY t.node`,
)

const countRows = (connection: SqlRunner, runId: RunId): Promise<RowCount[]> => connection.run<RowCount>(COUNTS, { runId })
