// Converts runs, tasks, attempts and events of a store to the JSON of the API and of `--json` (snake_case).

import type { Usage } from "../core/model/change.ts"
import { commandText } from "../core/model/definition-text.ts"
import { taskId } from "../core/model/ids.ts"
import { pushWorkerName } from "../core/model/push-worker.ts"
import type { Json } from "../core/values/json.ts"
import { lastIndex } from "../core/model/task-path.ts"
import { waitingOf } from "../core/model/waiting-on.ts"
import type { Node } from "../core/model/workflow.ts"
import type { Attempt, Event, Run, Task } from "../protocol/api/types.ts"
import type { AttemptRow, RunRow, StoreEvent, TaskRow } from "../store/contract/store.ts"

type UsageShape = NonNullable<Task["usage"]>

/** Returns the last index of a path; null without a fan-out. */
export const instanceIndex = (path: string): number | null => (path === "" ? null : lastIndex(path))

export const runShape = (run: RunRow): Run => ({
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

const detailsOf = (from: TaskRow | AttemptRow) => ({
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
export const attemptShapes = (task: TaskRow, past: readonly AttemptRow[]): Attempt[] => {
  const attempts = past.map((each): Attempt => ({
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
  task: TaskRow,
  node: Pick<Node, "retry" | "queue" | "command">,
  more: { input: Json; attempts: Attempt[] },
): Task => ({
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

export const eventShape = (event: StoreEvent): Event => ({
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
