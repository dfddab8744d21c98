// Columns of tasks and attempts as both stores read them, and the rows of the contract that they become.

import type { Usage } from "../../core/model/change.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { InstanceRow, PastAttempt } from "../contract/run-view.ts"
import type { AttemptRow, ChildOutput, Progress, TaskRow } from "../contract/store.ts"
import { fromJson, groupByColumn, outputOf, parkedOf } from "./codec.ts"

/** Columns of a task `t`, left-joined with the limit `l` under which it is parked. */
export const TASK_COLUMNS = `t.id AS "row", t.node, t.path, t.label, t.kind, t.status, t.skip_reason AS "skipReason", t.attempt, t.failures,
  t.losses, t.attempt_id AS "attemptId", t.priority, t.item, t.output, t.output_key, t.output_bytes, t.error,
  t.exit_code AS "exitCode", t.worker, t.external_id AS "externalId", t.usage, t.last_attempt_state AS "lastAttemptState",
  t.available_at AS "availableAt", t.dispatched_at AS "dispatchedAt", t.started_at AS "startedAt", t.finished_at AS "finishedAt",
  t.parked, l.key AS limit_key, l.cap, l.used, t.upstream_pending AS "upstreamPending", t.waiting_on AS "waitingOn",
  t.resume_at AS "resumeAt", t.progress`

export interface OutputRow {
  output: string | null
  output_key: string | null
  output_bytes: number | null
}

type Encoded = "item" | "output" | "usage" | "parked" | "waitingOn" | "progress"

export type TaskColumns = Omit<TaskRow, "runId" | "name" | Encoded> &
  OutputRow & { [column in Exclude<Encoded, "output" | "parked">]: string | null } & {
    parked: number | null
    limit_key: string | null
    cap: number | null
    used: number | null
  }

export const taskOf = (columns: TaskColumns, runId: RunId, { nodes }: CompiledWorkflow): TaskRow => {
  const { item, output, output_key, output_bytes, usage, parked, limit_key, cap, used, waitingOn, progress, ...row } = columns
  return {
    ...row,
    runId,
    name: nodes[row.node]!.name,
    item: fromJson(item),
    output: outputOf(output, output_key, output_bytes),
    usage: parsed<Usage>(usage),
    parked: parkedOf(parked, limit_key, cap, used),
    waitingOn: parsed<WaitingOn>(waitingOn),
    progress: parsed<Progress>(progress),
  }
}

const parsed = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T))

/** Columns of a task `t` that make its RowState. */
export const ROW_STATE_COLUMNS = `t.node, t.path, t.kind, t.status, t.skip_reason AS "skipReason",
  t.children_created AS "childrenCreated", t.children_total AS total`

const ATTEMPT_TIMES = `dispatched_at AS "dispatchedAt", started_at AS "startedAt", finished_at AS "finishedAt"`

export const ATTEMPT_COLUMNS = `attempt, attempt_id AS "attemptId", state, worker, external_id AS "externalId",
  exit_code AS "exitCode", error, usage, ${ATTEMPT_TIMES}`

export type AttemptColumns = Omit<AttemptRow, "usage"> & { usage: string | null }

export const attemptOf = (c: AttemptColumns): AttemptRow => ({ ...c, usage: parsed<Usage>(c.usage) })

export type ChildColumns = OutputRow & { id: number; node: number; status: TaskStatus }

export const childOutputOf = (c: ChildColumns): ChildOutput => ({
  row: c.id,
  node: c.node,
  status: c.status,
  output: c.status === "success" ? outputOf(c.output, c.output_key, c.output_bytes) : null,
})

/** Columns of a task `t` in the run view. */
export const INSTANCE_COLUMNS = `t.id, t.node, t.path, t.label, t.status, t.attempt, t.available_at AS "availableAt",
  t.waiting_on AS "waitingOn", t.dispatched_at AS "dispatchedAt", t.started_at AS "startedAt", t.finished_at AS "finishedAt"`

export type InstanceColumns = Omit<InstanceRow, "waitingOn" | "past"> & { id: number; waitingOn: string | null }

export const PAST_COLUMNS = `task_id AS "row", attempt, state, ${ATTEMPT_TIMES}`

export type PastColumns = PastAttempt & { row: number }

/** Returns the tasks of the run view, each with its past attempts. */
export const instancesOf = (tasks: readonly InstanceColumns[], attempts: readonly PastColumns[]): InstanceRow[] => {
  const past = groupByColumn(attempts, "row")
  return tasks.map(({ id, waitingOn, ...row }) => ({
    ...row,
    waitingOn: parsed<WaitingOn>(waitingOn)?.kind ?? null,
    past: past.get(id) ?? [],
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
