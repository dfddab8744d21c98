// Reads tasks, their attempts and outputs.

import type { Output, Usage } from "../../../core/model/change.ts"
import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import type { AttemptState, SkipReason, TaskStatus } from "../../../core/model/status.ts"
import { PAST_RUNS } from "../../shared/bounds.ts"
import { fromJson, outputOf, parkedOf } from "../../shared/codec.ts"
import type { NodeState } from "../../../core/rules/retry-plan.ts"
import type { AttemptRow, ChildOutput, RowKind, TaskRow } from "../../contract/store.ts"
import type { Session, Tx } from "../tx.ts"

const COLUMNS = `
SELECT t.id, t.node, t.path, t.kind, t.status, t.skip_reason, t.attempt, t.failures, t.losses, t.attempt_id, t.priority, t.item,
  t.output, t.output_key, t.output_bytes, t.error, t.exit_code, t.worker, t.external_id, t.usage, t.last_attempt_state,
  t.available_at, t.dispatched_at, t.started_at, t.finished_at, t.parked, l.key, l.cap, l.used, t.upstream_pending,
  t.waiting_on, t.resume_at, t.progress
FROM tasks t LEFT JOIN limits l ON l.id = t.parked`

type Columns = [
  number,
  number,
  string,
  RowKind,
  TaskStatus,
  SkipReason | null,
  number,
  number,
  number,
  AttemptId | null,
  number,
  string | null,
  string | null,
  string | null,
  number | null,
  string | null,
  number | null,
  string | null,
  string | null,
  string | null,
  AttemptState | null,
  string | null,
  string | null,
  string | null,
  string | null,
  number | null,
  string | null,
  number | null,
  number | null,
  number,
  string | null,
  string | null,
  string | null,
]

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
  session: Session,
  query: { runId: RunId; name?: string; after?: number; limit: number },
): TaskRow[] => {
  const run = session.db.get<[number, number]>(RUN, query.runId)
  if (run === undefined) return []
  const [seq, versionId] = run
  const after = query.after ?? 0
  const found =
    query.name === undefined
      ? session.db.all<Columns>(LIST, seq, after, query.limit)
      : session.db.all<Columns>(LIST_OF_NODE, seq, after, nodeOf(session, versionId, query.name), query.limit)
  return found.map((columns) => taskOf(session, query.runId, versionId, columns))
}

const GET = `${COLUMNS} WHERE t.run_seq = ? AND t.node = ? AND t.path = ?`

export const getTask = (session: Session, query: { runId: RunId; name: string; path: string }): TaskRow | null => {
  const run = session.db.get<[number, number]>(RUN, query.runId)
  if (run === undefined) return null
  const [seq, versionId] = run
  const found = session.db.get<Columns>(GET, seq, nodeOf(session, versionId, query.name), query.path)
  return found === undefined ? null : taskOf(session, query.runId, versionId, found)
}

const nodeOf = (session: Session, versionId: number, name: string): number =>
  session.versions.get(versionId).nodes.findIndex((node) => node.name === name)

const taskOf = (session: Session, runId: RunId, versionId: number, c: Columns): TaskRow => ({
  row: c[0],
  runId,
  node: c[1],
  name: session.versions.get(versionId).nodes[c[1]]!.name,
  path: c[2],
  kind: c[3],
  status: c[4],
  skipReason: c[5],
  attempt: c[6],
  failures: c[7],
  losses: c[8],
  attemptId: c[9],
  priority: c[10],
  item: fromJson(c[11]),
  output: outputOf(c[12], c[13], c[14]),
  error: c[15],
  exitCode: c[16],
  worker: c[17],
  externalId: c[18],
  usage: usageOf(c[19]),
  lastAttemptState: c[20],
  availableAt: c[21],
  dispatchedAt: c[22],
  startedAt: c[23],
  finishedAt: c[24],
  parked: parkedOf(c[25], c[26], c[27], c[28]),
  upstreamPending: c[29],
  waitingOn: c[30] === null ? null : (JSON.parse(c[30]) as TaskRow["waitingOn"]),
  resumeAt: c[31],
  progress: c[32] === null ? null : (JSON.parse(c[32]) as TaskRow["progress"]),
})

const usageOf = (text: string | null): Usage | null => (text === null ? null : (JSON.parse(text) as Usage))

const NODES = `
SELECT t.node, t.path, t.kind, t.status, t.skip_reason, t.children_created, t.children_total, t.id FROM tasks t JOIN runs r ON r.seq = t.run_seq
WHERE r.id = ? AND t.parent_id IS NULL AND t.hook = 0 ORDER BY t.id`

type NodeColumns = [number, string, RowKind, TaskStatus, SkipReason | null, number, number | null, number]

const stateOf = ([node, path, kind, status, skipReason, childrenCreated, total]: NodeColumns): NodeState => ({
  node,
  path,
  kind,
  status,
  skipReason,
  childrenCreated,
  total,
})

export const listNodes = (session: Session, runId: RunId): NodeState[] => session.db.all<NodeColumns>(NODES, runId).map(stateOf)

/** Rows inside containers, except task instances of a fan-out, which have the same node as their container. */
const INNER = `
SELECT t.node, t.path, t.kind, t.status, t.skip_reason, t.children_created, t.children_total, t.id
FROM tasks t INDEXED BY tasks_of_run CROSS JOIN tasks p ON p.id = t.parent_id
WHERE t.run_seq = (SELECT seq FROM runs WHERE id = ?) AND t.id > ? AND NOT (t.kind = 'task' AND t.node = p.node)
ORDER BY t.id LIMIT ? + 0`

export const listInner = (
  session: Session,
  { runId, after = 0, limit }: { runId: RunId; after?: number; limit: number },
): (NodeState & { row: number })[] =>
  session.db.all<NodeColumns>(INNER, runId, after, limit).map((columns) => Object.assign(stateOf(columns), { row: columns[7] }))

const ATTEMPTS = `
SELECT attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at, finished_at
FROM attempts WHERE task_id = ? ORDER BY attempt`

type AttemptColumns = [
  number,
  AttemptId,
  AttemptState,
  string | null,
  string | null,
  number | null,
  string | null,
  string | null,
  string | null,
  string | null,
  string | null,
]

export const listAttempts = (session: Session, row: number): AttemptRow[] =>
  session.db.all<AttemptColumns>(ATTEMPTS, row).map((c) => ({
    attempt: c[0],
    attemptId: c[1],
    state: c[2],
    worker: c[3],
    externalId: c[4],
    exitCode: c[5],
    error: c[6],
    usage: usageOf(c[7]),
    dispatchedAt: c[8],
    startedAt: c[9],
    finishedAt: c[10],
  }))

/** Instances have ids in the order of their indexes: they are inserted in this order and reset in place. */
const INSTANCES = `
SELECT id, node, status, output, output_key, output_bytes FROM tasks INDEXED BY tasks_children
WHERE parent_id = ? AND id > ? ORDER BY id LIMIT ? + 0`

type ChildColumns = [number, number, TaskStatus, string | null, string | null, number | null]

export const instanceOutputs = (
  session: Session,
  { containerRow, after, limit }: { containerRow: number; after: number; limit: number },
): ChildOutput[] =>
  session.db.all<ChildColumns>(INSTANCES, containerRow, after, limit).map(([row, node, status, inline, key, bytes]) => ({
    row,
    node,
    status,
    output: status === "success" ? outputOf(inline, key, bytes) : null,
  }))

const CACHED = `
SELECT output, output_key, output_bytes FROM cache
WHERE workflow_id = ? AND task = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)`

export const getCached = (
  session: Session,
  { workflowId, task, key }: { workflowId: number; task: string; key: string },
  at: string,
): Output | null => {
  const found = session.db.get<[string | null, string | null, number | null]>(CACHED, workflowId, task, key, at)
  return found === undefined ? null : outputOf(...found)
}

const CACHED_KEYS = `
SELECT output_key FROM cache
WHERE output_key IN (SELECT value FROM json_each(?)) AND (expires_at IS NULL OR expires_at > ?)`

export const cachedKeysInUse = (session: Session, keys: string[], at: string): string[] =>
  session.db.all<[string]>(CACHED_KEYS, JSON.stringify(keys), at).map(([key]) => key)

const TRIM_CACHE = `
DELETE FROM cache WHERE (workflow_id, task, key) IN (SELECT workflow_id, task, key FROM cache WHERE expires_at <= ? LIMIT ? + 0)`

export const trimCache = (tx: Tx, limit: number): number => tx.db.run(TRIM_CACHE, tx.at, limit)

const DURATIONS = `
WITH past AS (
  SELECT r.seq, r.version_id FROM runs r JOIN workflows w ON w.id = r.workflow_id
  WHERE w.name = ? AND r.status = 'success' ORDER BY r.created_at DESC, r.id DESC LIMIT ${PAST_RUNS}
)
SELECT past.version_id, t.node, sum((julianday(t.finished_at) - julianday(t.started_at)) * 86400), count(*)
FROM past JOIN tasks t ON t.run_seq = past.seq
WHERE t.kind = 'task' AND t.hook = 0 AND t.status = 'success' AND t.started_at IS NOT NULL
GROUP BY past.version_id, t.node`

export const pastDurations = (session: Session, workflow: string): Map<string, number> => {
  const sums = new Map<string, { seconds: number; count: number }>()
  for (const [versionId, node, seconds, count] of session.db.all<[number, number, number, number]>(DURATIONS, workflow)) {
    const { name } = session.versions.get(versionId).nodes[node]!
    const sum = sums.get(name) ?? { seconds: 0, count: 0 }
    sums.set(name, { seconds: sum.seconds + seconds, count: sum.count + count })
  }
  return new Map([...sums].map(([name, { seconds, count }]) => [name, Math.round((seconds / count) * 1000) / 1000]))
}
