// Why a task is where it is, in one sentence: which upstream, which limit and who holds it, which retry at what time, which
// rule. Pure: the caller reads the rows.

import { FUNCTION_EXECUTOR } from "../model/function.ts"
import { pathPrefix, taskDisplayName, groupPathLengths } from "../model/task-path.ts"
import type { AttemptState, RunStatus, SkipReason, TaskStatus } from "../model/status.ts"
import { waitingView, waitingText, type WaitingOn } from "../model/waiting-on.ts"
import { type CompiledWorkflow, type Node, REMOTE_EXECUTORS } from "../model/workflow.ts"

export interface ExplainedTask {
  node: number
  name: string
  path: string
  /** A container stands for its instances, or for the tasks in it. */
  kind?: "task" | "fan" | "group"
  status: TaskStatus
  skipReason: SkipReason | null
  attempt: number
  error: string | null
  outcome: AttemptState | null
  worker: string | null
  availableAt: string | null
  startedAt: string | null
  upstreamPending: number
  /** What it waits for without a slot, and until when. */
  waitingOn?: WaitingOn | null
  resumeAt?: string | null
  parked: "paused" | "group" | { limit: string; cap: number; used: number } | null
}

export interface ExplainedRun {
  id: string
  status: RunStatus
  paused: boolean
  cancelling: "cancel" | "timeout" | null
  /** It has ended so. */
  timedOut?: boolean
  /** Runs of the workflow that are active, when `max_active_runs` holds this one back. */
  activeRuns: number
}

export interface ExplainContext {
  workflow: CompiledWorkflow
  run: ExplainedRun
  /** How each top-level node stands, by node. */
  nodes: ReadonlyMap<number, TaskStatus>
  /** How what stands beside a task inside a group stands, by `NODE/PATH`. */
  inner?: ReadonlyMap<string, TaskStatus>
  /** Names of tasks that hold a slot of a limit, by the limit's key. */
  holders: ReadonlyMap<string, readonly string[]>
  /** Whether a live server or worker can take the task; and whether its queue rests. */
  queue(node: Node): QueueState
}

export interface QueueState {
  served: boolean
  /** For a task that calls a function: whether anybody who is alive has it. */
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

const list = (names: readonly string[], most = 3): string =>
  names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${names.length - most} more`

/** A run that has not started: what it waits for. */
export const explainRun = ({ workflow, run }: Pick<ExplainContext, "workflow" | "run">): Explanation | null => {
  const say = (sentence: string): Explanation => ({ task: null, path: "", status: run.status, sentence })
  if (run.status === "pending") {
    return workflow.maxActiveRuns === undefined
      ? say("The run waits for an earlier run of its schedule to end (overlap: queue).")
      : say(
          `The run waits: ${run.activeRuns} of at most ${workflow.maxActiveRuns} runs of ${workflow.name} are active (max_active_runs).`,
        )
  }
  if (run.status === "running" && run.cancelling !== null) {
    const why = run.cancelling === "timeout" ? "it ran out of time" : "it was cancelled"
    return say(`The run is ending because ${why}; it ends when the last of its processes is dead.`)
  }
  if (run.status === "running" && run.paused) return say("The run is paused: nothing new starts until it is resumed.")
  return null
}

export const explainTask = (task: ExplainedTask, around: ExplainContext): Explanation => {
  const node = around.workflow.nodes[task.node]!
  const name = task.path === "" ? task.name : `${task.name}[${task.path}]`
  return { task: task.name, path: task.path, status: task.status, sentence: `${name} ${reason(task, node, around)}.` }
}

const reason = (task: ExplainedTask, node: Node, around: ExplainContext): string => {
  const inside = { fan: "instances", group: "tasks", task: null }[task.kind ?? "task"]
  if (inside !== null && task.status === "success") return `succeeded with its ${inside}`
  if (inside !== null && task.status === "running")
    return `waits for its ${inside} to end, since ${task.startedAt ?? "just now"}`
  switch (task.status) {
    case "success":
      return task.attempt === 0 ? "took its output from the cache" : `succeeded in attempt ${task.attempt}`
    case "failed":
      return `failed${task.attempt === 0 ? "" : ` in attempt ${task.attempt} of at most ${node.retry.maxAttempts}`}: ${task.error ?? "no reason was given"}`
    case "skipped":
      return `was skipped: ${task.error ?? "its rule was not met"}`
    case "cancelled":
      return `was cancelled with ${cancelledWith(node, around)}`
    case "running":
      if (task.waitingOn) {
        const paused = task.parked === "paused" ? "; what comes next waits because the run is paused" : ""
        return `${waitingText(waitingView(task.waitingOn, task.resumeAt ?? null))}${paused}`
      }
      return `runs on ${task.worker ?? "a worker"} since ${task.startedAt ?? "just now"} (attempt ${task.attempt})`
    case "dispatched":
      return `was given to ${task.worker ?? "a worker"} and has not started yet (attempt ${task.attempt})`
    case "pending":
      return waits(task, node, around)
    default:
      return task.status satisfies never
  }
}

/** Without a cancel of its run, and while that is not out of time itself, only a group around it that is can end a task. */
const cancelledWith = ({ group }: Node, { workflow, run }: ExplainContext): string => {
  if (run.status === "cancelled" || run.cancelling !== null || run.timedOut === true) return "its run"
  for (let at = group; at !== null; at = workflow.nodes[at]!.group) {
    const { name, timeoutMs } = workflow.nodes[at]!
    if (timeoutMs !== null) return `the group ${name}, which timed out`
  }
  return "its run"
}

const waits = (task: ExplainedTask, node: Node, around: ExplainContext): string => {
  if (task.upstreamPending > 0) {
    const statusOf = (up: number): TaskStatus => around.inner?.get(`${up}/${task.path}`) ?? around.nodes.get(up) ?? "success"
    const open = node.upstream.filter((up) => ["pending", "dispatched", "running"].includes(statusOf(up)))
    const names = open.map((up) => `${around.workflow.nodes[up]!.name} (${statusOf(up)})`)
    return `waits for ${list(names)}`
  }
  if (task.availableAt !== null) {
    return `waits for its retry at ${task.availableAt}, after attempt ${task.attempt} failed: ${task.error ?? "no reason was given"}`
  }
  if (task.parked === "paused" || around.run.paused) return "waits because the run is paused"
  if (task.parked === "group") return `waits until ${groupOf(task, node, around)} has a slot again`
  if (task.parked !== null) return `waits for ${limitText(task.parked, around)}`
  const queue = around.queue(node)
  if (queue.paused) return `waits because the queue ${node.queue} is paused`
  if (!queue.served) return `waits: ${nobody(node, queue.registered === true)}`
  if (queue.full) return `waits for a slot of the queue ${node.queue}`
  if (queue.rate === null) return "is ready and waits for a free slot"
  const { limit, periodMs } = queue.rate
  return `is ready and waits for a free slot, or for the rate of the queue ${node.queue} (at most ${limit} starts in ${periodMs / 1000} s)`
}

/** The group around it. */
const groupOf = (task: ExplainedTask, { group }: Node, { workflow }: ExplainContext): string =>
  group === null
    ? "its group"
    : taskDisplayName(workflow.nodes[group]!.name, pathPrefix(task.path, groupPathLengths(workflow)[task.node]!))

const nobody = ({ queue, labels, executor, function: name }: Node, registered: boolean): string => {
  if (REMOTE_EXECUTORS.includes(executor)) return `no server is alive to start it (${executor})`
  const calls = executor === FUNCTION_EXECUTOR
  if (calls && !registered) {
    return `no worker has the function ${name}; start one that registers it (ork worker --handlers FILE, or startWorker)`
  }
  const having = labels.length === 0 ? "" : ` and has the label${labels.length === 1 ? "" : "s"} ${labels.join(", ")}`
  return `nobody who is alive ${calls ? `has the function ${name} and ` : ""}takes work from the queue ${queue}${having}`
}

const LIMIT_NAMES = {
  r: "tasks of this run at once (concurrency of the workflow)",
  t: "instances of it at once (its concurrency)",
  k: "at once with the same concurrency_key",
} as const

const limitText = (parked: { limit: string; cap: number; used: number }, around: ExplainContext): string => {
  const kind = parked.limit.slice(0, 1) as keyof typeof LIMIT_NAMES
  const held = around.holders.get(parked.limit) ?? []
  const who = held.length === 0 ? "" : `, held by ${list(held)}`
  return `a slot: ${parked.used} of ${parked.cap} ${LIMIT_NAMES[kind] ?? "at once"}${who}`
}
