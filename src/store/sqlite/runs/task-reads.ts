// Reads tasks, their attempts and outputs.

import type { Output } from "../../../core/model/change.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { nodeIndexOf } from "../../../core/model/workflow.ts"
import type { RowState } from "../../../core/rules/runs/retry-plan.ts"
import type { AttemptRow, ChildOutput, TaskRow } from "../../contract/store.ts"
import { PAST_RUNS } from "../../shared/bounds.ts"
import { outputOf } from "../../shared/codec.ts"
import {
  ATTEMPT_COLUMNS,
  type AttemptColumns,
  attemptOf,
  averageDurations,
  type ChildColumns,
  childOutputOf,
  ROW_STATE_COLUMNS,
  type NodeDuration,
  TASK_COLUMNS,
  type TaskColumns,
  taskOf,
} from "../../shared/task-rows.ts"
import type { StoreContext, Tx } from "../tx.ts"

const COLUMNS = `SELECT ${TASK_COLUMNS} FROM tasks t LEFT JOIN limits l ON l.id = t.parked`

const RUN = "SELECT seq, version_id FROM runs WHERE id = ?"

const LIST = `${COLUMNS}
WHERE t.id IN (
  SELECT id FROM tasks INDEXED BY tasks_of_run WHERE run_seq = ? AND id > ? AND kind = 'task' ORDER BY id LIMIT ? + 0
) ORDER BY t.id`

const LIST_OF_NODE = `${COLUMNS}
WHERE t.id IN (
  SELECT id FROM tasks INDEXED BY tasks_of_run WHERE run_seq = ? AND id > ? AND kind = 'task' AND node = ? ORDER BY id LIMIT ? + 0
) ORDER BY t.id`

export const listTasks = (
  context: StoreContext,
  query: { runId: RunId; name?: string; after?: number; limit: number },
): TaskRow[] => {
  const run = context.db.get<[number, number]>(RUN, query.runId)
  if (run === undefined) return []
  const [seq, versionId] = run
  const after = query.after ?? 0
  const compiled = context.workflows.get(versionId)
  const found =
    query.name === undefined
      ? context.db.list<TaskColumns>(LIST, seq, after, query.limit)
      : context.db.list<TaskColumns>(LIST_OF_NODE, seq, after, nodeIndexOf(compiled, query.name), query.limit)
  return found.map((columns) => taskOf(columns, query.runId, compiled))
}

const GET = `${COLUMNS} WHERE t.run_seq = ? AND t.node = ? AND t.path = ?`

export const getTask = (context: StoreContext, query: { runId: RunId; name: string; path: string }): TaskRow | null => {
  const run = context.db.get<[number, number]>(RUN, query.runId)
  if (run === undefined) return null
  const [seq, versionId] = run
  const compiled = context.workflows.get(versionId)
  const found = context.db.find<TaskColumns>(GET, seq, nodeIndexOf(compiled, query.name), query.path)
  return found === undefined ? null : taskOf(found, query.runId, compiled)
}

const PATHS = `
SELECT path FROM tasks INDEXED BY tasks_key WHERE run_seq = ? AND node = ? AND label = ? AND kind <> 'fan' ORDER BY id LIMIT ? + 0`

export const findPaths = (
  context: StoreContext,
  query: { runId: RunId; name: string; label: string; limit: number },
): string[] => {
  const run = context.db.get<[number, number]>(RUN, query.runId)
  if (run === undefined) return []
  const [seq, versionId] = run
  const node = nodeIndexOf(context.workflows.get(versionId), query.name)
  return context.db.all<[string]>(PATHS, seq, node, query.label, query.limit).map(([path]) => path)
}

const NODES = `
SELECT ${ROW_STATE_COLUMNS} FROM tasks t JOIN runs r ON r.seq = t.run_seq
WHERE r.id = ? AND t.parent_id IS NULL AND t.hook = 0 ORDER BY t.id`

export const listRowStates = (context: StoreContext, runId: RunId): RowState[] => context.db.list<RowState>(NODES, runId)

/** Rows inside containers, except task instances of a fan-out, which have the same node as their container. */
const INNER = `
SELECT t.id AS "row", ${ROW_STATE_COLUMNS} FROM tasks t INDEXED BY tasks_of_run CROSS JOIN tasks p ON p.id = t.parent_id
WHERE t.run_seq = (SELECT seq FROM runs WHERE id = ?) AND t.id > ? AND NOT (t.kind = 'task' AND t.node = p.node)
ORDER BY t.id LIMIT ? + 0`

export const listInnerRowStates = (
  context: StoreContext,
  { runId, after = 0, limit }: { runId: RunId; after?: number; limit: number },
): (RowState & { row: number })[] => context.db.list(INNER, runId, after, limit)

const ATTEMPTS = `SELECT ${ATTEMPT_COLUMNS} FROM attempts WHERE task_id = ? ORDER BY attempt`

export const listAttempts = (context: StoreContext, row: number): AttemptRow[] =>
  context.db.list<AttemptColumns>(ATTEMPTS, row).map(attemptOf)

/** Instances have ids in the order of their indexes: they are inserted in this order and reset in place. */
const INSTANCES = `
SELECT id, node, status, output, output_key, output_bytes FROM tasks INDEXED BY tasks_children
WHERE parent_id = ? AND id > ? ORDER BY id LIMIT ? + 0`

export const childOutputs = (
  context: StoreContext,
  { containerRow, after, limit }: { containerRow: number; after: number; limit: number },
): ChildOutput[] => context.db.list<ChildColumns>(INSTANCES, containerRow, after, limit).map(childOutputOf)

const CACHED = `
SELECT output, output_key, output_bytes FROM cache
WHERE workflow_id = ? AND task = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)`

export const getCached = (
  context: StoreContext,
  { workflowId, task, key }: { workflowId: number; task: string; key: string },
  at: string,
): Output | null => {
  const found = context.db.get<[string | null, string | null, number | null]>(CACHED, workflowId, task, key, at)
  return found === undefined ? null : outputOf(...found)
}

const CACHED_KEYS = `
SELECT output_key FROM cache
WHERE output_key IN (SELECT value FROM json_each(?)) AND (expires_at IS NULL OR expires_at > ?)`

export const cachedKeysInUse = (context: StoreContext, keys: string[], at: string): string[] =>
  context.db.all<[string]>(CACHED_KEYS, JSON.stringify(keys), at).map(([key]) => key)

const TRIM_CACHE = `
DELETE FROM cache WHERE (workflow_id, task, key) IN (SELECT workflow_id, task, key FROM cache WHERE expires_at <= ? LIMIT ? + 0)`

export const trimCache = (tx: Tx, limit: number): number => tx.db.run(TRIM_CACHE, tx.at, limit)

const DURATIONS = `
WITH past AS (
  SELECT r.seq, r.version_id FROM runs r JOIN workflows w ON w.id = r.workflow_id
  WHERE w.name = ? AND r.status = 'success' ORDER BY r.created_at DESC, r.id DESC LIMIT ${PAST_RUNS}
)
SELECT past.version_id, t.node, sum((julianday(t.finished_at) - julianday(t.started_at)) * 86400) AS seconds,
  count(*) AS count
FROM past JOIN tasks t ON t.run_seq = past.seq
WHERE t.kind = 'task' AND t.hook = 0 AND t.status = 'success' AND t.started_at IS NOT NULL
GROUP BY past.version_id, t.node`

export const pastDurations = (context: StoreContext, workflow: string): Map<string, number> =>
  averageDurations(context.db.list<NodeDuration>(DURATIONS, workflow), (versionId) => context.workflows.get(versionId))
