// Reads for the run view, by the index of task keys.

import type { RunId } from "../../../core/model/ids.ts"
import { hasPast, type InstanceRow, type RowCount, type RunViewStore } from "../../contract/run-view.ts"
import { INSTANCE_COLUMNS, type InstanceColumns, instancesOf, PAST_COLUMNS, type PastColumns } from "../../shared/task-rows.ts"
import type { Access, StoreContext } from "../tx.ts"

export const runView = ({ read }: Access): RunViewStore => ({
  listInstances: (query) => read((s) => listInstances(s, query)),
  countRows: (runId) => read((s) => countRows(s, runId)),
})

const INSTANCES = `
SELECT ${INSTANCE_COLUMNS} FROM tasks t INDEXED BY tasks_key
WHERE t.run_seq = (SELECT seq FROM runs WHERE id = ?1) AND (t.node, t.path) > (?2, ?3) AND t.kind = 'task'
ORDER BY t.node, t.path LIMIT ?4 + 0`

const PAST = `
SELECT ${PAST_COLUMNS} FROM attempts WHERE task_id IN (SELECT value FROM json_each(?)) ORDER BY task_id, attempt`

const START = { node: -1, path: "" }

export const listInstances = (
  context: StoreContext,
  { runId, after = START, limit }: Parameters<RunViewStore["listInstances"]>[0],
): InstanceRow[] => {
  const rows = context.db.list<InstanceColumns>(INSTANCES, runId, after.node, after.path, limit)
  const ids = rows.filter(hasPast).map(({ id }) => id)
  return instancesOf(rows, ids.length === 0 ? [] : context.db.list<PastColumns>(PAST, JSON.stringify(ids)))
}

const COUNTS = `
SELECT node, kind, status, count(*) AS count, min(started_at) AS "startedAt", max(finished_at) AS "finishedAt"
FROM tasks INDEXED BY tasks_key WHERE run_seq = (SELECT seq FROM runs WHERE id = ?) GROUP BY node, kind, status`

export const countRows = (context: StoreContext, runId: RunId): RowCount[] => context.db.list<RowCount>(COUNTS, runId)
