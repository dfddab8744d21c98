// Converts runs, tasks, attempts and events of a store to the JSON of the API and of `--json` (snake_case). The `…Fields` types describe
// the rows, so that this file does not depend on the stores.

import type { z } from "zod"
import type { RunCause } from "../../core/model/cause.ts"
import type { Output, Usage } from "../../core/model/change.ts"
import { commandText } from "../../core/model/definition-text.ts"
import { taskId } from "../../core/model/ids.ts"
import { pushWorkerName } from "../../core/model/push-worker.ts"
import type { JobStatus } from "../../core/rules/jobs/jobs.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { AttemptState, RunStatus, TaskStatus } from "../../core/model/status.ts"
import { lastIndex } from "../../core/model/task-path.ts"
import { waitingOf, type WaitingView, type WaitingOn } from "../../core/model/waiting-on.ts"
import type { Node } from "../../core/model/workflow.ts"
import type * as runs from "./runs.ts"
import type * as streams from "./streams.ts"

export type RunShape = z.output<typeof runs.run>
export type TaskShape = z.output<typeof runs.task>
export type AttemptShape = TaskShape["attempts"][number]
export type EventShape = z.output<typeof streams.event>
type UsageShape = NonNullable<TaskShape["usage"]>

interface Progress {
  /** 0 to 1. */
  fraction: number | null
  details: Json
}

export interface RunFields {
  id: string
  workflow: string
  number: number
  version: number
  status: RunStatus
  paused: boolean
  trigger: string
  cause: RunCause | null
  params: JsonObject
  priority: number
  logicalDate: string | null
  createdAt: string
  createdBy: string | null
  startedAt: string | null
  finishedAt: string | null
  idleMs: number
  error: string | null
  parent: { runId: string; task: string } | null
  tasks: Record<TaskStatus, number>
}

interface Times {
  dispatchedAt: string | null
  startedAt: string | null
  finishedAt: string | null
}

interface AttemptDetails {
  worker: string | null
  externalId: string | null
  exitCode: number | null
  error: string | null
  usage: Usage | null
}

export interface AttemptFields extends Times, AttemptDetails {
  attempt: number
  attemptId: string
  state: AttemptState
}

export interface TaskFields extends Times, AttemptDetails {
  row: number
  runId: string
  name: string
  path: string
  label: string | null
  status: TaskStatus
  attempt: number
  failures: number
  attemptId: string | null
  priority: number
  output: Output | null
  lastAttemptState: AttemptState | null
  availableAt: string | null
  waitingOn: WaitingOn | null
  resumeAt: string | null
  progress: Progress | null
}

/** Event of a run, a task or a job; fields that do not apply are absent. */
export interface EventFields {
  type: "run" | "task" | "job"
  runId?: string | undefined
  jobId?: string | undefined
  name?: string | undefined
  queue?: string | undefined
  task?: string | undefined
  path?: string | undefined
  attempt?: number | undefined
  status: RunStatus | TaskStatus | JobStatus
  at: string
  error?: string | undefined
  availableAt?: string | undefined
  total?: number | undefined
  waiting?: WaitingView | undefined
  progress?: Progress | undefined
}

/** Returns the last index of a path; null without a fan-out. */
export const instanceIndex = (path: string): number | null => (path === "" ? null : lastIndex(path))

export const runShape = (run: RunFields): RunShape => ({
  id: run.id,
  workflow: run.workflow,
  number: run.number,
  version: run.version,
  status: run.status,
  paused: run.paused,
  trigger: run.trigger,
  cause: run.cause,
  params: run.params,
  priority: run.priority,
  logical_date: run.logicalDate,
  created_at: run.createdAt,
  created_by: run.createdBy,
  started_at: run.startedAt,
  finished_at: run.finishedAt,
  idle_ms: run.idleMs,
  error: run.error,
  parent: run.parent === null ? null : { run_id: run.parent.runId, task: run.parent.task },
  tasks: run.tasks,
})

const usageShape = (usage: Usage | null): UsageShape | null =>
  usage === null
    ? null
    : {
        max_rss_bytes: usage.maxRssBytes ?? null,
        cpu_user_ms: usage.cpuUserMs ?? null,
        cpu_system_ms: usage.cpuSystemMs ?? null,
        signal: usage.signal ?? null,
      }

const detailsOf = (from: Times & AttemptDetails) => ({
  worker: pushWorkerName(from.externalId) ?? from.worker,
  external_id: from.externalId,
  exit_code: from.exitCode,
  error: from.error,
  usage: usageShape(from.usage),
  dispatched_at: from.dispatchedAt,
  started_at: from.startedAt,
  finished_at: from.finishedAt,
})

/** Returns the past attempts and the current or latest one, oldest first. */
export const attemptShapes = (task: TaskFields, past: readonly AttemptFields[]): AttemptShape[] => {
  const attempts = past.map((each): AttemptShape => ({
    id: each.attemptId,
    attempt: each.attempt,
    status: each.state,
    ...detailsOf(each),
  }))
  const isPast = past.some((each) => each.attempt === task.attempt)
  const status = task.lastAttemptState ?? (task.status === "dispatched" || task.status === "running" ? task.status : null)
  if (isPast || task.attempt === 0 || task.attemptId === null || status === null) return attempts
  return [...attempts, { id: task.attemptId, attempt: task.attempt, status, ...detailsOf(task) }]
}

export const taskShape = (
  task: TaskFields,
  node: Pick<Node, "retry" | "queue" | "command">,
  more: { input: Json; attempts: AttemptShape[] },
): TaskShape => ({
  id: taskId(task.runId, task.row),
  run_id: task.runId,
  name: task.name,
  index: instanceIndex(task.path),
  path: task.path,
  label: task.label,
  status: task.status,
  attempt: task.attempt,
  max_attempts: node.retry.maxAttempts,
  retries_left: Math.max(0, node.retry.maxAttempts - Math.max(1, task.failures + (task.status === "pending" ? 0 : 1))),
  queue: node.queue,
  priority: task.priority,
  command: node.command === undefined ? null : commandText(node.command),
  input: more.input,
  output: task.output !== null && "inline" in task.output ? task.output.inline : null,
  output_object: task.output !== null && "key" in task.output ? { key: task.output.key, bytes: task.output.bytes } : null,
  available_at: task.availableAt,
  waiting: waitingOf(task, Date.now()),
  progress: task.progress,
  ...detailsOf(task),
  attempts: more.attempts,
})

export const eventShape = (event: EventFields): EventShape => ({
  event: event.type,
  run_id: event.type === "job" ? null : (event.runId ?? null),
  ...(event.jobId === undefined ? {} : { job_id: event.jobId, name: event.name ?? null, queue: event.queue ?? null }),
  task: event.task ?? null,
  index: event.path === undefined ? null : instanceIndex(event.path),
  path: event.path ?? null,
  attempt: event.attempt ?? null,
  status: event.status,
  at: event.at,
  ...(event.error === undefined ? {} : { error: event.error }),
  ...(event.availableAt === undefined ? {} : { available_at: event.availableAt }),
  ...(event.total === undefined ? {} : { total: event.total }),
  ...(event.waiting === undefined ? {} : { waiting: event.waiting }),
  ...(event.progress === undefined ? {} : { progress: event.progress }),
})
