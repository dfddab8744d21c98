// Columns of tasks and attempts as both stores read them, and the rows of the contract that they become.

import type { Usage } from "../../core/model/change.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import type { AttemptState, SkipReason, TaskStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { InstanceRow, PastAttempt } from "../contract/run-view.ts"
import type { AttemptRow, ChildOutput, RowKind, TaskRow } from "../contract/store.ts"
import { fromJson, groupByColumn, outputOf, parkedOf } from "./codec.ts"

/** Columns of a task `t`, left-joined with the limit `l` under which it is parked. */
export const TASK_COLUMNS = `t.id, t.node, t.path, t.kind, t.status, t.skip_reason, t.attempt, t.failures, t.losses, t.attempt_id,
  t.priority, t.item, t.output, t.output_key, t.output_bytes, t.error, t.exit_code, t.worker, t.external_id, t.usage,
  t.last_attempt_state, t.available_at, t.dispatched_at, t.started_at, t.finished_at, t.parked, l.key AS limit_key, l.cap, l.used,
  t.upstream_pending, t.waiting_on, t.resume_at, t.progress`

export interface OutputRow {
  output: string | null
  output_key: string | null
  output_bytes: number | null
}

interface Times {
  available_at: string | null
  dispatched_at: string | null
  started_at: string | null
  finished_at: string | null
}

export interface TaskColumns extends OutputRow, Times {
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
  error: string | null
  exit_code: number | null
  worker: string | null
  external_id: string | null
  usage: string | null
  last_attempt_state: AttemptState | null
  parked: number | null
  limit_key: string | null
  cap: number | null
  used: number | null
  upstream_pending: number
  waiting_on: string | null
  resume_at: string | null
  progress: string | null
}

export const taskOf = (c: TaskColumns, runId: RunId, { nodes }: CompiledWorkflow): TaskRow => ({
  row: c.id,
  runId,
  node: c.node,
  name: nodes[c.node]!.name,
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

/** Columns of a task `t` that make its NodeState. */
export const NODE_COLUMNS = `t.node, t.path, t.kind, t.status, t.skip_reason AS "skipReason",
  t.children_created AS "childrenCreated", t.children_total AS total`

const ATTEMPT_TIMES = `dispatched_at AS "dispatchedAt", started_at AS "startedAt", finished_at AS "finishedAt"`

export const ATTEMPT_COLUMNS = `attempt, attempt_id AS "attemptId", state, worker, external_id AS "externalId",
  exit_code AS "exitCode", error, usage, ${ATTEMPT_TIMES}`

export type AttemptColumns = Omit<AttemptRow, "usage"> & { usage: string | null }

export const attemptOf = (c: AttemptColumns): AttemptRow => ({ ...c, usage: usageOf(c.usage) })

export type ChildColumns = OutputRow & { id: number; node: number; status: TaskStatus }

export const childOutputOf = (c: ChildColumns): ChildOutput => ({
  row: c.id,
  node: c.node,
  status: c.status,
  output: c.status === "success" ? outputOf(c.output, c.output_key, c.output_bytes) : null,
})

/** Columns of a task `t` in the run view. */
export const INSTANCE_COLUMNS =
  "t.id, t.node, t.path, t.status, t.attempt, t.available_at, t.waiting_on, t.dispatched_at, t.started_at, t.finished_at"

export type InstanceColumns = Pick<TaskColumns, "id" | "node" | "path" | "status" | "attempt" | "waiting_on" | keyof Times>

export const PAST_COLUMNS = `task_id AS "row", attempt, state, ${ATTEMPT_TIMES}`

export type PastColumns = PastAttempt & { row: number }

/** Returns the tasks of the run view, each with its past attempts. */
export const instancesOf = (tasks: readonly InstanceColumns[], attempts: readonly PastColumns[]): InstanceRow[] => {
  const past = groupByColumn(attempts, "row")
  return tasks.map((c) => ({
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

/** Seconds that successful rows of a node ran, in total, and their number. */
export interface NodeDuration {
  version_id: number
  node: number
  seconds: number
  count: number
}

/** Returns the average duration of each task by name, in seconds. */
export const averageDurations = (
  durations: readonly NodeDuration[],
  compiled: (versionId: number) => CompiledWorkflow,
): Map<string, number> => {
  const byName = Map.groupBy(durations, ({ version_id, node }) => compiled(version_id).nodes[node]!.name)
  const total = (parts: readonly NodeDuration[], field: "seconds" | "count"): number =>
    parts.reduce((sum, part) => sum + part[field], 0)
  return new Map(
    [...byName].map(([name, parts]) => [name, Math.round((total(parts, "seconds") / total(parts, "count")) * 1000) / 1000]),
  )
}
