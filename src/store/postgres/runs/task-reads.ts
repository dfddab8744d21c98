// Reads tasks, their attempts and outputs.

import type { Output, Usage } from "../../../core/model/change.ts"
import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import type { NodeState } from "../../../core/rules/retry-plan.ts"
import type { AttemptState, SkipReason, TaskStatus } from "../../../core/model/status.ts"
import type { CompiledWorkflow, Node } from "../../../core/model/workflow.ts"
import { PAST_RUNS } from "../../shared/bounds.ts"
import { fromJson, outputOf, parkedOf } from "../../shared/codec.ts"
import type { AttemptRow, ChildOutput, RowKind, TaskRow } from "../../contract/store.ts"
import { NEWEST_OF } from "./run-reads.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import type { Workflows } from "../cache/workflows.ts"
import { NOW } from "../connection/store-clock.ts"

const COLUMNS = `
SELECT t.id, t.node, t.path, t.kind, t.status, t.skip_reason, t.attempt, t.failures, t.losses, t.attempt_id, t.priority, t.item,
  t.output, t.output_key, t.output_bytes, t.error, t.exit_code, t.worker, t.external_id, t.usage, t.last_attempt_state, t.available_at,
  t.dispatched_at, t.started_at, t.finished_at, t.parked, l.key AS limit_key, l.cap, l.used, t.upstream_pending,
  t.waiting_on, t.resume_at, t.progress`

interface Columns {
  id: number
  node: number
  path: string
  kind: RowKind
  status: TaskStatus
  skip_reason: SkipReason | null
  attempt: number
  failures: number
  losses: number
  attempt_id: AttemptId | null
  priority: number
  item: string | null
  output: string | null
  output_key: string | null
  output_bytes: number | null
  error: string | null
  exit_code: number | null
  worker: string | null
  external_id: string | null
  usage: string | null
  last_attempt_state: AttemptState | null
  available_at: string | null
  dispatched_at: string | null
  started_at: string | null
  finished_at: string | null
  parked: number | null
  limit_key: string | null
  cap: number | null
  used: number | null
  upstream_pending: number
  waiting_on: string | null
  resume_at: string | null
  progress: string | null
}

const RUN = statement("tasks_run", "SELECT seq, version_id FROM runs WHERE id = :runId::uuid")

const PAGE = `${COLUMNS} FROM page p JOIN tasks t ON t.id = p.id LEFT JOIN limits l ON l.id = t.parked ORDER BY t.id`

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
  const only = name === undefined ? null : nodes.findIndex((node) => node.name === name)
  const node = only === null ? undefined : nodes[only]
  if (only !== null && (node === undefined || isGroup(node))) return []
  const rows =
    node !== undefined && isTop(node)
      ? await connection.run<Columns>(LIST_OF_TASK, { seq: run.seq, only, after, limit })
      : await connection.run<Columns>(LIST, {
          seq: run.seq,
          nodes: only === null ? nodesOf(compiled, isTop) : [],
          after,
          limit,
          only,
        })
  return rows.map((row) => taskOf(row, runId, nodes[row.node]!.name))
}

const GET = statement(
  "task_get",
  `${COLUMNS} FROM tasks t LEFT JOIN limits l ON l.id = t.parked WHERE t.run_seq = :seq AND t.node = :node AND t.path = :path`,
)

export const getTask = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, name, path }: { runId: RunId; name: string; path: string },
): Promise<TaskRow | null> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return null
  const node = (await workflows.compiled(run.version_id)).nodes.findIndex((candidate) => candidate.name === name)
  const [row] = await connection.run<Columns>(GET, { seq: run.seq, node, path })
  return row === undefined ? null : taskOf(row, runId, name)
}

const taskOf = (c: Columns, runId: RunId, name: string): TaskRow => ({
  row: c.id,
  runId,
  node: c.node,
  name,
  path: c.path,
  kind: c.kind,
  status: c.status,
  skipReason: c.skip_reason,
  attempt: c.attempt,
  failures: c.failures,
  losses: c.losses,
  attemptId: c.attempt_id,
  priority: c.priority,
  item: fromJson(c.item),
  output: outputOf(c.output, c.output_key, c.output_bytes),
  error: c.error,
  exitCode: c.exit_code,
  worker: c.worker,
  externalId: c.external_id,
  usage: usageOf(c.usage),
  lastAttemptState: c.last_attempt_state,
  availableAt: c.available_at,
  dispatchedAt: c.dispatched_at,
  startedAt: c.started_at,
  finishedAt: c.finished_at,
  parked: parkedOf(c.parked, c.limit_key, c.cap, c.used),
  upstreamPending: c.upstream_pending,
  waitingOn: c.waiting_on === null ? null : (JSON.parse(c.waiting_on) as TaskRow["waitingOn"]),
  resumeAt: c.resume_at,
  progress: c.progress === null ? null : (JSON.parse(c.progress) as TaskRow["progress"]),
})

const usageOf = (text: string | null): Usage | null => (text === null ? null : (JSON.parse(text) as Usage))

const STATE = `t.node, t.path, t.kind, t.status, t.skip_reason AS "skipReason", t.children_created AS "childrenCreated", t.children_total AS total`

const NODES = statement(
  "nodes_list",
  `SELECT ${STATE} FROM unnest(:nodes::int[]) AS n (node) JOIN tasks t ON t.run_seq = :seq AND t.node = n.node AND t.path = ''
   WHERE NOT t.hook AND t.parent_id IS NULL ORDER BY t.id`,
)

export const listNodes = async (connection: SqlRunner, workflows: Workflows, runId: RunId): Promise<NodeState[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  return connection.run<NodeState>(NODES, { seq: run.seq, nodes: nodesOf(await workflows.compiled(run.version_id), isTop) })
}

/** Rows inside containers, except task instances of a fan-out. */
const INNER = statement(
  "inner_list",
  `SELECT t.id AS row, ${STATE} FROM tasks t
   WHERE t.run_seq = :seq AND t.parent_id IS NOT NULL AND t.id > :after AND (t.kind <> 'task' OR t.node = ANY (:nodes::int[]))
   ORDER BY t.run_seq, t.id LIMIT :limit`,
)

export const listInner = async (
  connection: SqlRunner,
  workflows: Workflows,
  { runId, after = 0, limit }: { runId: RunId; after?: number; limit: number },
): Promise<(NodeState & { row: number })[]> => {
  const [run] = await connection.run<FoundRun>(RUN, { runId })
  if (run === undefined) return []
  const compiled = await workflows.compiled(run.version_id)
  if (!compiled.nodes.some(isGroup)) return []
  return connection.run(INNER, { seq: run.seq, after, limit, nodes: nodesOf(compiled, ({ fan }) => fan === undefined) })
}

const ATTEMPTS = statement(
  "attempts_list",
  `SELECT attempt, attempt_id AS "attemptId", state, worker, external_id AS "externalId", exit_code AS "exitCode", error, usage,
     dispatched_at AS "dispatchedAt", started_at AS "startedAt", finished_at AS "finishedAt"
   FROM attempts WHERE task_id = :row ORDER BY attempt`,
)

export const listAttempts = async (connection: SqlRunner, row: number): Promise<AttemptRow[]> => {
  const rows = await connection.run<Omit<AttemptRow, "usage"> & { usage: string | null }>(ATTEMPTS, { row })
  return rows.map((attempt) => ({ ...attempt, usage: usageOf(attempt.usage) }))
}

/** Instances have ids in the order of their indexes: they are inserted in this order and reset in place. */
const INSTANCES = statement(
  "instance_outputs",
  `SELECT id, node, status, output, output_key, output_bytes FROM tasks WHERE parent_id = :containerRow AND id > :after
   ORDER BY parent_id, id LIMIT :limit`,
)

type OutputRow = { output: string | null; output_key: string | null; output_bytes: number | null }

export const instanceOutputs = async (
  connection: SqlRunner,
  { containerRow, after, limit }: { containerRow: number; after: number; limit: number },
): Promise<ChildOutput[]> => {
  type Row = OutputRow & { id: number; node: number; status: TaskStatus }
  const rows = await connection.run<Row>(INSTANCES, { containerRow, after, limit })
  return rows.map(({ id, node, status, output, output_key, output_bytes }) => ({
    row: id,
    node,
    status,
    output: status === "success" ? outputOf(output, output_key, output_bytes) : null,
  }))
}

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
  const sums = new Map<string, { seconds: number; count: number }>()
  type Sum = { version_id: number; node: number; seconds: number; count: number }
  for (const { version_id, node, seconds, count } of await connection.run<Sum>(DURATIONS, { workflow })) {
    const { name } = (await workflows.compiled(version_id)).nodes[node]!
    const sum = sums.get(name) ?? { seconds: 0, count: 0 }
    sums.set(name, { seconds: sum.seconds + seconds, count: sum.count + count })
  }
  return new Map([...sums].map(([name, { seconds, count }]) => [name, Math.round((seconds / count) * 1000) / 1000]))
}
