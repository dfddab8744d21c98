// Reads tasks, their attempts and outputs.

import type { Output } from "../../../core/model/change.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import type { RowState } from "../../../core/rules/runs/retry-plan.ts"
import { type CompiledWorkflow, type Node, nodeIndexOf } from "../../../core/model/workflow.ts"
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
  type OutputRow,
  TASK_COLUMNS,
  type TaskColumns,
  taskOf,
} from "../../shared/task-rows.ts"
import { NEWEST_OF } from "./run-reads.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import type { Workflows } from "../cache/workflows.ts"
import { NOW } from "../connection/store-clock.ts"

const RUN = statement("tasks_run", "SELECT seq, version_id FROM runs WHERE id = :runId::uuid")

const PAGE = `SELECT ${TASK_COLUMNS} FROM page p JOIN tasks t ON t.id = p.id LEFT JOIN limits l ON l.id = t.parked ORDER BY t.id`

/** Lists rows in order of their ids: reads top-level rows by their nodes, inner rows by the index of rows with a parent. */
const LIST = statement(
  "tasks_list",
  `WITH inner_page AS (
     SELECT t.id FROM tasks t
     WHERE t.run_seq = :seq AND t.parent_id IS NOT NULL AND t.id > :after AND t.kind = 'task' AND (:only::int IS NULL OR t.node = :only)
     ORDER BY t.run_seq, t.id LIMIT :limit
   ), page AS (
     SELECT t.id FROM unnest(:nodes::int[]) AS n (node) JOIN tasks t ON t.run_seq = :seq AND t.node = n.node AND t.path = ''
     WHERE t.kind = 'task' AND t.id > :after
     UNION ALL SELECT id FROM inner_page ORDER BY id LIMIT :limit
   )
   ${PAGE}`,
)

/** Lists a task outside of groups: its row, or its instances. */
const LIST_OF_TASK = statement(
  "tasks_list_of_task",
  `WITH top AS (
     SELECT id, kind FROM tasks WHERE run_seq = :seq AND node = :only::int AND path = ''
   ), page AS (
     SELECT id FROM top WHERE kind = 'task' AND id > :after
     UNION ALL
     SELECT i.id FROM top CROSS JOIN LATERAL (
       SELECT t.id FROM tasks t WHERE t.parent_id = top.id AND t.id > :after ORDER BY t.parent_id, t.id LIMIT :limit
     ) i WHERE top.kind = 'fan' ORDER BY id LIMIT :limit
   )
   ${PAGE}`,
)

const nodesOf = ({ nodes }: CompiledWorkflow, matches: (node: Node) => boolean): number[] =>
  nodes.flatMap((node, i) => (matches(node) ? [i] : []))

const isTop = ({ group }: Node): boolean => group === null

type FoundRun = { seq: number; version_id: number }

export const listTasks = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, name, after = 0, limit }: { runId: RunId; name?: string; after?: number; limit: number },
): Promise<TaskRow[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  const compiled = await workflows.compiled(run.version_id)
  const { nodes } = compiled
  const only = name === undefined ? null : nodeIndexOf(compiled, name)
  const node = only === null ? undefined : nodes[only]
  if (only !== null && (node === undefined || isGroup(node))) return []
  const rows =
    node !== undefined && isTop(node)
      ? await connection.run<TaskColumns>(LIST_OF_TASK, { seq: run.seq, only, after, limit })
      : await connection.run<TaskColumns>(LIST, {
          seq: run.seq,
          nodes: only === null ? nodesOf(compiled, isTop) : [],
          after,
          limit,
          only,
        })
  return rows.map((row) => taskOf(row, runId, compiled))
}

const GET = statement(
  "task_get",
  `SELECT ${TASK_COLUMNS} FROM tasks t LEFT JOIN limits l ON l.id = t.parked WHERE t.run_seq = :seq AND t.node = :node AND t.path = :path`,
)

export const getTask = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, name, path }: { runId: RunId; name: string; path: string },
): Promise<TaskRow | null> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return null
  const compiled = await workflows.compiled(run.version_id)
  const node = nodeIndexOf(compiled, name)
  const [row] = await connection.run<TaskColumns>(GET, { seq: run.seq, node, path })
  return row === undefined ? null : taskOf(row, runId, compiled)
}

const PATHS = statement(
  "task_paths",
  `SELECT path FROM tasks WHERE run_seq = :seq AND node = :node AND label = :label AND kind <> 'fan' ORDER BY id LIMIT :limit::int`,
)

export const findPaths = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, name, label, limit }: { runId: RunId; name: string; label: string; limit: number },
): Promise<string[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  const node = nodeIndexOf(await workflows.compiled(run.version_id), name)
  const rows = await connection.run<{ path: string }>(PATHS, { seq: run.seq, node, label, limit })
  return rows.map(({ path }) => path)
}

const NODES = statement(
  "nodes_list",
  `SELECT ${ROW_STATE_COLUMNS} FROM unnest(:nodes::int[]) AS n (node) JOIN tasks t ON t.run_seq = :seq AND t.node = n.node AND t.path = ''
   WHERE NOT t.hook AND t.parent_id IS NULL ORDER BY t.id`,
)

export const listRowStates = async (connection: SqlRunner, workflows: Workflows, runId: RunId): Promise<RowState[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  return connection.run<RowState>(NODES, { seq: run.seq, nodes: nodesOf(await workflows.compiled(run.version_id), isTop) })
}

/** Rows inside containers, except task instances of a fan-out. */
const INNER = statement(
  "inner_list",
  `SELECT t.id AS row, ${ROW_STATE_COLUMNS} FROM tasks t
   WHERE t.run_seq = :seq AND t.parent_id IS NOT NULL AND t.id > :after AND (t.kind <> 'task' OR t.node = ANY (:nodes::int[]))
   ORDER BY t.run_seq, t.id LIMIT :limit`,
)

export const listInnerRowStates = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, after = 0, limit }: { runId: RunId; after?: number; limit: number },
): Promise<(RowState & { row: number })[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  const compiled = await workflows.compiled(run.version_id)
  if (!compiled.nodes.some(isGroup)) return []
  return connection.run(INNER, { seq: run.seq, after, limit, nodes: nodesOf(compiled, ({ fan }) => fan === undefined) })
}

const ATTEMPTS = statement("attempts_list", `SELECT ${ATTEMPT_COLUMNS} FROM attempts WHERE task_id = :row ORDER BY attempt`)

export const listAttempts = async (connection: SqlRunner, row: number): Promise<AttemptRow[]> =>
  (await connection.run<AttemptColumns>(ATTEMPTS, { row })).map(attemptOf)

/** Instances have ids in the order of their indexes: they are inserted in this order and reset in place. */
const INSTANCES = statement(
  "instance_outputs",
  `SELECT id, node, status, output, output_key, output_bytes FROM tasks WHERE parent_id = :containerRow AND id > :after
   ORDER BY parent_id, id LIMIT :limit`,
)

export const childOutputs = async (
  connection: SqlRunner,
  query: { containerRow: number; after: number; limit: number },
): Promise<ChildOutput[]> => (await connection.run<ChildColumns>(INSTANCES, query)).map(childOutputOf)

const CACHED = statement(
  "cache_get",
  `SELECT output, output_key, output_bytes FROM cache WHERE workflow_id = :workflowId AND task = :task AND key = :key
     AND (expires_at IS NULL OR expires_at > ${NOW})`,
)

export const getCached = async (
  connection: SqlRunner,
  { workflowId, task, key }: { workflowId: number; task: string; key: string },
): Promise<Output | null> => {
  const [row] = await connection.run<OutputRow>(CACHED, { workflowId, task, key })
  return row === undefined ? null : outputOf(row.output, row.output_key, row.output_bytes)
}

const CACHED_KEYS = statement(
  "cached_keys",
  `SELECT output_key FROM cache WHERE output_key = ANY(:keys::text[])
     AND (expires_at IS NULL OR expires_at > ${NOW})`,
)

export const cachedKeysInUse = async (connection: SqlRunner, keys: string[]): Promise<string[]> =>
  (await connection.run<{ output_key: string }>(CACHED_KEYS, { keys })).map((row) => row.output_key)

const TRIM_CACHE = statement(
  "cache_trim",
  `DELETE FROM cache c USING (SELECT workflow_id, task, key FROM cache WHERE expires_at <= ${NOW} LIMIT :limit::int FOR UPDATE) AS old
   WHERE c.workflow_id = old.workflow_id AND c.task = old.task AND c.key = old.key RETURNING 1`,
)

export const trimCache = async (tx: SqlRunner, limit: number): Promise<number> => (await tx.run(TRIM_CACHE, { limit })).length

const DURATIONS = statement(
  "past_durations",
  `WITH past AS (
     SELECT r.seq, r.version_id FROM runs r WHERE r.workflow_id = (SELECT id FROM workflows WHERE name = :workflow)
       AND r.status = 'success' ${NEWEST_OF} LIMIT ${PAST_RUNS}
   )
   SELECT past.version_id, t.node, sum(EXTRACT(epoch FROM t.finished_at - t.started_at))::float8 AS seconds,
     count(*)::int AS count
   FROM past JOIN tasks t ON t.run_seq = past.seq
   WHERE t.kind = 'task' AND NOT t.hook AND t.status = 'success' AND t.started_at IS NOT NULL
   GROUP BY past.version_id, t.node`,
)

export const pastDurations = async (
  connection: SqlRunner,
  workflows: Workflows,
  workflow: string,
): Promise<Map<string, number>> => {
  const durations = await connection.run<NodeDuration>(DURATIONS, { workflow })
  await workflows.load(durations.map(({ version_id }) => version_id))
  return averageDurations(durations, (versionId) => workflows.getLoaded(versionId))
}
