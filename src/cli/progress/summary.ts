// Formats the summary of a closed run: status, duration, critical path, counts, and for each failure its error and the tail of
// its log. Pure; the caller reads the logs.

import type { TerminalRun, TerminalTask } from "./terminal-state.ts"
import { taskLabel } from "./event-text.ts"
import { iconOf } from "./icons.ts"
import { TASK_STATUSES, type TaskStatus } from "../../core/model/status.ts"
import type { Span } from "../terminal/style.ts"
import { duration, plural, printable } from "../terminal/text.ts"
import { criticalPath, latestFinished } from "../../core/model/critical-path.ts"

export interface Failure {
  task: string
  path: string
  attempt: number
  error: string
}

export interface Summary {
  view: TerminalRun
  counts: Record<TaskStatus, number>
  failures: { failure: Failure; lastLines: string[] }[]
  /** Number of failures that are not listed. */
  more: number
}

/** Failures shown with the tail of their log. */
export const MAX_FAILURES_SHOWN = 5
export const TAIL_LINES = 20

/** Returns the failures in the order of the workflow. `total` includes failures that the view did not store. */
export const failuresOf = (view: TerminalRun): { shown: Failure[]; total: number } => {
  const shown: Failure[] = []
  let total = 0
  for (const task of view.tasks) {
    const each = failuresOfTask(task)
    shown.push(...each.slice(0, Math.max(0, MAX_FAILURES_SHOWN - shown.length)))
    if (!task.group) total += Math.max(each.length, task.ended.failed)
  }
  return { shown, total }
}

/** Returns the failed instances, or the fan-out itself if it failed before it had instances. */
const failuresOfTask = (task: TerminalTask): Failure[] => {
  if (task.failures.length > 0) return task.failures.map((failure) => ({ task: task.name, ...failure }))
  const alone = task.ownStatus === "failed" && !task.group && task.ended.failed === 0
  return alone ? [{ task: task.name, path: "", attempt: 0, error: task.error ?? "" }] : []
}

export const logCommand = (runId: string, failure: Failure): string => {
  const place = failure.path === "" ? "" : failure.path.includes(".") ? ` --path ${failure.path}` : ` --index ${failure.path}`
  return `ork logs ${runId} ${failure.task}${place}`
}

export const summaryLines = ({ view, counts, failures, more }: Summary): Span[][] => {
  const lines: Span[][] = [headline(view)]
  if (view.error !== null && view.error !== "") lines.push(["  ", [printable(view.error), "red"]])
  const steps = criticalSteps(view)
  if (steps.length > 0) lines.push(["  critical path: ", pathText(steps)])
  lines.push(["  tasks: ", countsText(counts)])
  for (const { failure, lastLines } of failures) lines.push(...failureLines(view.runId, failure, lastLines))
  if (more > 0) lines.push([], [`… and ${more} more failed; see them with `, [`ork show ${view.runId}`, "bold"]])
  return lines
}

const headline = (view: TerminalRun): Span[] => {
  const [icon, style] = iconOf(view.status)
  const took = view.startedAt === null || view.finishedAt === null ? "" : ` in ${duration(view.finishedAt - view.startedAt)}`
  return [[icon, style], " ", [view.workflow.name, "bold"], " ", [view.status, style], took, "  ", [view.runId, "dim"]]
}

const PATH_STEPS = 12

const pathText = (steps: Step[]): string => {
  const text = (step: Step): string => `${step.name} ${duration(step.finishedAt - step.startedAt)}`
  if (steps.length <= PATH_STEPS) return steps.map(text).join(" → ")
  const half = PATH_STEPS / 2
  const between = plural(steps.length - PATH_STEPS, "task")
  return [...steps.slice(0, half).map(text), `… ${between} …`, ...steps.slice(-half).map(text)].join(" → ")
}

const countsText = (counts: Record<TaskStatus, number>): string => {
  const present = TASK_STATUSES.filter((status) => counts[status] > 0)
  return present.length === 0 ? "none" : present.map((status) => `${counts[status]} ${status}`).join(", ")
}

const failureLines = (runId: string, failure: Failure, lastLines: string[]): Span[][] => [
  [],
  [
    iconOf("failed"),
    " ",
    [taskLabel(failure.task, failure.path), "bold"],
    failure.attempt > 0 ? `, attempt ${failure.attempt}` : "",
    failure.error === "" ? "" : ": ",
    [printable(failure.error), "red"],
  ],
  ...lastLines.map((line): Span[] => ["    ", [printable(line), "dim"]]),
  ...(failure.attempt > 0 ? [["  full log: ", logCommand(runId, failure)]] : []),
]

export interface Step {
  name: string
  startedAt: number
  finishedAt: number
}

export const criticalSteps = (view: TerminalRun): Step[] => {
  const last = latestFinished(view.tasks.filter(({ hook, depth }) => !hook && depth === 0))
  const upstream = (task: TerminalTask): TerminalTask | null =>
    latestFinished(view.workflow.nodes[task.node]!.upstream.map((index) => view.tasks[index]!))
  return criticalPath(last, upstream).flatMap(({ name, startedAt, finishedAt }) =>
    startedAt === null || finishedAt === null ? [] : [{ name, startedAt, finishedAt }],
  )
}
