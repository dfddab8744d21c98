// Explains the state of a task or a run in one sentence: the upstream, limit, retry, queue or rule that it waits for. The caller
// (engine/services/explain.ts) reads the rows.

import type { RunCause } from "../model/cause.ts"
import { FUNCTION_EXECUTOR } from "../model/function.ts"
import { HANDLER_EXECUTOR } from "./jobs/job-workflow.ts"
import type { JobStatus } from "./jobs/jobs.ts"
import type { Json } from "../values/json.ts"
import type { RowKind } from "../model/row.ts"
import { enclosingPath, taskDisplayName, taskKey } from "../model/task-path.ts"
import { formatDuration } from "../values/quantities.ts"
import { type AttemptState, isTaskFinished, type RunStatus, type SkipReason, type TaskStatus } from "../model/status.ts"
import { waitingOf, waitingText, type WaitingOn } from "../model/waiting-on.ts"
import { type CompiledWorkflow, type Node, REMOTE_EXECUTORS } from "../model/workflow.ts"
import { isSharedLimit } from "../routing/limit-keys.ts"

export interface ExplainedTask {
  node: number
  name: string
  path: string
  kind?: RowKind
  status: TaskStatus
  skipReason: SkipReason | null
  attempt: number
  error: string | null
  lastAttemptState: AttemptState | null
  worker: string | null
  availableAt: string | null
  startedAt: string | null
  upstreamPending: number
  /** Set while the task waits without a slot. */
  waitingOn?: WaitingOn | null
  resumeAt?: string | null
  /** The last progress that the attempt reported. */
  progress?: { details: Json } | null
  parked: "paused" | "group" | { limit: string; cap: number; used: number } | null
}

export interface ExplainedRun {
  id: string
  status: RunStatus
  paused: boolean
  cancelling: "cancel" | "timeout" | null
  /** The run has closed because it timed out. */
  timedOut?: boolean
  startedAt?: string | null
  /** The run whose success this one waits for (`depends_on_past`), unless it has succeeded. */
  waitsFor?: { id: string; status: RunStatus } | null
  /** Active runs of the workflow, while `max_active_runs` keeps this one pending. */
  activeRuns: number
}

export interface ExplainContext {
  workflow: CompiledWorkflow
  run: ExplainedRun
  /** Milliseconds since the epoch. */
  now: number
  /** Statuses of the top-level tasks, by node. */
  nodes: ReadonlyMap<number, TaskStatus>
  /** Statuses of tasks inside groups, by task key. */
  inner?: ReadonlyMap<string, TaskStatus>
  /** Names of the tasks that use the slots of a limit, by the limit's key. */
  slotUsers: ReadonlyMap<string, readonly string[]>
  queue(node: Node): QueueState
}

/** State of a task's queue. */
export interface QueueState {
  /** A live server or worker accepts the task. */
  served: boolean
  /** For a task that calls a function: a live worker has registered it. */
  registered?: boolean
  paused: boolean
  full: boolean
  rate: { limit: number; periodMs: number } | null
}

export interface Explanation {
  task: string | null
  path: string
  status: string
  sentence: string
}

const MAX_CAUSES = 10

const list = (names: readonly string[], most = 3): string =>
  names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${names.length - most} more`

/** Explains why a run has not started, or is stopping or paused; null for any other run. */
export const explainRun = ({ workflow, run }: Pick<ExplainContext, "workflow" | "run">): Explanation | null => {
  const explain = (sentence: string): Explanation => ({ task: null, path: "", status: run.status, sentence })
  if (run.status === "pending" && run.waitsFor) {
    const { id, status } = run.waitsFor
    const advice = status === "pending" || status === "running" ? "" : "; retry that run, or mark its tasks as successful"
    return explain(
      `The run waits for the success of run ${id} of the previous tick, which is ${status} (depends_on_past)${advice}.`,
    )
  }
  if (run.status === "pending") {
    return workflow.maxActiveRuns === undefined || run.activeRuns < workflow.maxActiveRuns
      ? explain("The run waits for an earlier run of its schedule to end (overlap: queue).")
      : explain(
          `The run waits because ${run.activeRuns} of at most ${workflow.maxActiveRuns} runs of ${workflow.name} are active (max_active_runs).`,
        )
  }
  if (run.status === "running" && run.cancelling !== null) {
    const why = run.cancelling === "timeout" ? "it timed out" : "it was cancelled"
    return explain(`The run is stopping because ${why}; it closes when its last process has exited.`)
  }
  if (run.status === "running" && run.paused) return explain("The run is paused: nothing new starts until it is resumed.")
  return null
}

/** Explains what a trigger created a run for. */
export const explainCause = (status: RunStatus, cause: RunCause): Explanation => {
  const what =
    "path" in cause
      ? `because of the file ${cause.path}`
      : `after the success of ${list(
          cause.runs.map(({ id, workflow }) => `${workflow} (run ${id})`),
          MAX_CAUSES,
        )}`
  return { task: null, path: "", status, sentence: `The run started ${what}.` }
}

/** A notification that could not be delivered. `task`: what it is about; null: the run. */
export interface UndeliveredNotification {
  task: { name: string; path: string } | null
  kind: string
  tries: number
  problem: string
  gaveUp: boolean
}

/** Explains why a notification of a run, or of a task of it, did not arrive. */
export const explainNotification = (
  status: RunStatus,
  { task, kind, tries, problem, gaveUp }: UndeliveredNotification,
): Explanation => {
  const next = gaveUp ? "Ork has given up" : "Ork tries again"
  const count = tries === 1 ? "1 try" : `${tries} tries`
  const event = task === null ? kind : `${kind} of ${taskDisplayName(task.name, task.path)}`
  const sentence = `The notification of ${event} could not be delivered: ${problem}. ${next} after ${count}.`
  return { task: null, path: "", status, sentence }
}

export const explainTask = (task: ExplainedTask, context: ExplainContext): Explanation => {
  const node = context.workflow.nodes[task.node]!
  const sentence = `${taskDisplayName(task.name, task.path)} ${statusReason(task, node, context)}${lateness(task, node, context)}.`
  return { task: task.name, path: task.path, status: task.status, sentence }
}

/** Returns the end of the sentence about a task that has not ended by its deadline. */
const lateness = ({ status }: ExplainedTask, { deadlineMs }: Node, { run, now }: ExplainContext): string => {
  const { startedAt = null } = run
  if (deadlineMs === undefined || startedAt === null || isTaskFinished(status)) return ""
  if (now - Date.parse(startedAt) <= deadlineMs) return ""
  return `; it is past its deadline, ${formatDuration(deadlineMs)} after the start of the run`
}

/** Returns the predicate of the sentence. */
const statusReason = (task: ExplainedTask, node: Node, context: ExplainContext): string => {
  const children = { fan: "instances", group: "tasks", task: null }[task.kind ?? "task"]
  if (children !== null && task.status === "success") return `succeeded with its ${children}`
  if (children !== null && task.status === "running")
    return `waits for its ${children} to finish, since ${task.startedAt ?? "just now"}`
  switch (task.status) {
    case "success":
      return successReason(task, node)
    case "failed":
      return `failed${task.attempt === 0 ? "" : ` in attempt ${task.attempt} of at most ${node.retry.maxAttempts}`}: ${task.error ?? "no reason was given"}`
    case "skipped":
      return `was skipped: ${task.error ?? "its rule was not met"}`
    case "cancelled":
      return `was cancelled with ${cancelledWith(node, context)}`
    case "running":
      if (task.waitingOn) {
        const paused = task.parked === "paused" ? "; the run is paused" : ""
        return `${waitingText(waitingOf(task, context.now)!)}${paused}`
      }
      return `runs on ${task.worker ?? "a worker"} since ${task.startedAt ?? "just now"} (attempt ${task.attempt})${progressText(task)}`
    case "dispatched":
      return `was claimed by ${task.worker ?? "a worker"} and has not started yet (attempt ${task.attempt})${progressText(task)}`
    case "pending":
      return pendingReason(task, node, context)
    default:
      return task.status satisfies never
  }
}

/** An outcome that a user has set leaves the state of the last attempt as it was. */
const successReason = ({ attempt, lastAttemptState }: ExplainedTask, { cache }: Node): string => {
  if (lastAttemptState === "success") return `succeeded in attempt ${attempt}`
  if (lastAttemptState === null && cache !== undefined) return "took its output from the cache"
  return `was marked as successful ${attempt === 0 ? "before its first attempt" : `after attempt ${attempt}`}`
}

/** Returns progress that the attempt reported as a text, such as the state of its job in a cluster. */
const progressText = ({ progress }: Pick<ExplainedTask, "progress">): string =>
  typeof progress?.details === "string" ? `; ${progress.details}` : ""

/** Names what stopped the task: the run if it was cancelled or timed out, otherwise the nearest group with a timeout. */
const cancelledWith = ({ group }: Node, { workflow, run }: ExplainContext): string => {
  if (run.status === "cancelled" || run.cancelling !== null || run.timedOut === true) return "its run"
  for (let at = group; at !== null; at = workflow.nodes[at]!.group) {
    const { name, timeoutMs } = workflow.nodes[at]!
    if (timeoutMs !== null) return `the group ${name}, which timed out`
  }
  return "its run"
}

const pendingReason = (task: ExplainedTask, node: Node, context: ExplainContext): string => {
  if (task.upstreamPending > 0) {
    const statusOf = (up: number): TaskStatus =>
      context.inner?.get(taskKey(up, task.path)) ?? context.nodes.get(up) ?? "success"
    const open = node.upstream.filter((up) => ["pending", "dispatched", "running"].includes(statusOf(up)))
    const names = open.map((up) => `${context.workflow.nodes[up]!.name} (${statusOf(up)})`)
    return `waits for ${list(names)}`
  }
  if (task.availableAt !== null) {
    return `waits for its retry at ${task.availableAt}, after attempt ${task.attempt} failed: ${task.error ?? "no reason was given"}`
  }
  if (task.parked === "paused" || context.run.paused) return "waits because the run is paused"
  if (task.parked === "group") return `waits until ${groupName(task, node, context)} has a slot again`
  if (task.parked !== null) return `waits for ${limitText(task.parked, context.slotUsers.get(task.parked.limit) ?? [])}`
  return queueReason(node, context.queue(node))
}

/** Returns why a task or job that is ready does not start. */
const queueReason = (node: Node, queue: QueueState): string => {
  if (queue.paused) return `waits because the queue ${node.queue} is paused`
  if (!queue.served) return `waits because ${unservedReason(node, queue.registered === true)}`
  if (queue.full) return `waits for a slot of the queue ${node.queue}`
  if (queue.rate === null) return "is ready and waits for a free slot"
  const { limit, periodMs } = queue.rate
  return `is ready and waits for a free slot, or for the rate of the queue ${node.queue} (at most ${limit} starts in ${periodMs / 1000} s)`
}

// -- jobs ------------------------------------------------------------------------------------------------------------------------

export interface ExplainedJob extends Pick<ExplainedTask, "name" | "error" | "worker" | "availableAt" | "startedAt"> {
  status: JobStatus
  attemptCount: number
  progress: { details: Json } | null
  parked: { limit: string; cap: number; used: number } | null
}

export interface JobContext {
  /** Node of the job (job-workflow.ts). */
  node: Node
  /** Dependencies of a PENDING job that have not completed. */
  dependencies: readonly { name: string; status: JobStatus }[]
  /** Names of the tasks and jobs that use the slots of the limit that the job waits for. */
  slotUsers: readonly string[]
  queue: QueueState
}

export const explainJob = (job: ExplainedJob, context: JobContext): Explanation => ({
  task: job.name,
  path: "",
  status: job.status,
  sentence: `${job.name} ${jobReason(job, context)}.`,
})

const jobReason = (job: ExplainedJob, context: JobContext): string => {
  const { attemptCount: attempt, error } = job
  switch (job.status) {
    case "PENDING":
      return `waits for ${list(context.dependencies.map(({ name, status }) => `${name} (${status})`))}`
    case "READY":
      return readyReason(job, context)
    case "RUNNING":
      return job.startedAt === null
        ? `was claimed by ${job.worker ?? "a worker"} and has not started yet (attempt ${attempt})`
        : `runs on ${job.worker ?? "a worker"} since ${job.startedAt} (attempt ${attempt})${progressText(job)}`
    case "COMPLETED":
      return `completed in attempt ${attempt}`
    case "FAILED": {
      const { maxAttempts } = context.node.retry
      const when = attempt === 0 ? "before its first attempt" : `in attempt ${attempt} of at most ${maxAttempts}`
      return `failed ${when}: ${error ?? "no reason was given"}`
    }
    case "BLOCKED":
      return `is blocked: ${error ?? "a dependency did not complete"}`
    default:
      return job.status satisfies never
  }
}

const readyReason = (job: ExplainedJob, { node, slotUsers, queue }: JobContext): string => {
  const { availableAt, attemptCount, parked } = job
  if (availableAt !== null && attemptCount === 0) return `waits until ${availableAt}`
  if (availableAt !== null)
    return `waits for its retry at ${availableAt}, after attempt ${attemptCount} failed: ${job.error ?? "no reason was given"}`
  if (parked !== null) return `waits for ${limitText(parked, slotUsers)}`
  return queueReason(node, queue)
}

const groupName = (task: ExplainedTask, { group }: Node, { workflow }: ExplainContext): string =>
  group === null ? "its group" : taskDisplayName(workflow.nodes[group]!.name, enclosingPath(workflow, task.node, task.path))

const unservedReason = ({ queue, labels, executor, function: name }: Node, registered: boolean): string => {
  if (REMOTE_EXECUTORS.includes(executor)) return `no live server can start it (executor ${executor})`
  if (executor === HANDLER_EXECUTOR)
    return `nobody handles it: no live server or worker has a handler for the queue ${queue} (ork worker --handlers FILE, or startWorker)`
  const calls = executor === FUNCTION_EXECUTOR
  if (calls && !registered) {
    const [pinned, version] = name!.split("@")
    if (version !== undefined) return `no live process runs version ${version} of ${pinned}, to which it is pinned`
    return `no live worker has the function ${name}; start one that registers it (ork worker --handlers FILE, or startWorker)`
  }
  const requirements = [
    `accepts the queue ${queue}`,
    ...(labels.length === 0 ? [] : [`has the label${labels.length === 1 ? "" : "s"} ${labels.join(", ")}`]),
    ...(calls ? [`has the function ${name}`] : []),
  ]
  return `no live ${calls ? "worker" : "server or worker"} ${requirements.join(" and ")}`
}

const LIMIT_NAMES = {
  r: "the workflow's concurrency",
  t: "its concurrency",
  k: "its concurrency_key",
} as const

const limitText = ({ limit, cap, used }: { limit: string; cap: number; used: number }, users: readonly string[]): string => {
  const kind = limit.slice(0, 1) as keyof typeof LIMIT_NAMES
  const name = isSharedLimit(limit) ? "its limit" : (LIMIT_NAMES[kind] ?? "its limit")
  return `a slot of ${name}: ${used} of ${cap} in use${users.length === 0 ? "" : ` by ${list(users)}`}`
}
