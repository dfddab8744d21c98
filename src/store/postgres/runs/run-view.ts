// Reads for the run view, by the index of task keys.

import type { RunId } from "../../../core/model/ids.ts"
import { hasPast, type InstanceRow, type RowCount, type RunViewStore } from "../../contract/run-view.ts"
import { INSTANCE_COLUMNS, type InstanceColumns, instancesOf, PAST_COLUMNS, type PastColumns } from "../../shared/task-rows.ts"
import type { Access } from "../tx.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

export const runView = ({ read }: Access): RunViewStore => ({
  listInstances: (query) => read((connection) => listInstances(connection, query)),
  countRows: (runId) => read((connection) => countRows(connection, runId)),
})

const INSTANCES = statement(
  "instances_list",
  `SELECT ${INSTANCE_COLUMNS}
   FROM tasks t
   WHERE t.run_seq = (SELECT seq FROM runs WHERE id = :runId::uuid) AND (t.node, t.path) > (:node::int, :path::text) AND t.kind = 'task'
   ORDER BY t.run_seq, t.node, t.path LIMIT :limit::int`,
)

const PAST = statement(
  "past_attempts",
  `SELECT ${PAST_COLUMNS} FROM attempts WHERE task_id = ANY (:ids::bigint[]) ORDER BY task_id, attempt`,
)

const START = { node: -1, path: "" }

const listInstances = async (
  connection: SqlRunner,
  { runId, after = START, limit }: Parameters<RunViewStore["listInstances"]>[0],
): Promise<InstanceRow[]> => {
  const rows = await connection.run<InstanceColumns>(INSTANCES, { runId, node: after.node, path: after.path, limit })
  const ids = rows.filter(hasPast).map(({ id }) => id)
  return instancesOf(rows, ids.length === 0 ? [] : await connection.run<PastColumns>(PAST, { ids }))
}

const COUNTS = statement(
  "rows_count",
  `SELECT t.node, t.kind, t.status, count(*)::int AS count, min(t.started_at) AS "startedAt", max(t.finished_at) AS "finishedAt"
   FROM tasks t WHERE t.run_seq = (SELECT seq FROM runs WHERE id = :runId::uuid) GROUP BY t.node, t.kind, t.status ORDER BY t.node`,
)

const countRows = (connection: SqlRunner, runId: RunId): Promise<RowCount[]> => connection.run<RowCount>(COUNTS, { runId })
