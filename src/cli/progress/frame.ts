// Lays out the live view: converts a run view, a size and a time into lines of spans, which screen.ts draws. Pure.

import { progressText } from "./event-text.ts"
import {
  endedCount,
  countInside,
  type LiveInstance,
  type TerminalRun,
  stateOf,
  type TaskState,
  type TerminalTask,
} from "./terminal-state.ts"
import { iconOf } from "./icons.ts"
import { isTaskFinished } from "../../core/model/status.ts"
import { groupMembers } from "../../core/model/task-path.ts"
import { waitingText } from "../../core/model/waiting-on.ts"
import type { Span, Style } from "../terminal/style.ts"
import { duration, padEnd, plural, printable, truncate } from "../terminal/text.ts"

export interface Frame {
  view: TerminalRun
  now: number
  width: number
  height: number
  /** Last log lines of running instances, by `logKey`. */
  lastLines: ReadonlyMap<string, string>
  timeLeftMs: number | null
  /** Hint below the progress bar, such as the effect of the next Ctrl-C. */
  note: string | null
}

export const logKey = (task: string, path: string): string => `${task}/${path}`

/** Order in which tasks are shown if there are more tasks than rows. */
const URGENCY = {
  running: 0,
  failed: 1,
  waiting: 2,
  dispatched: 3,
  cancelled: 4,
  pending: 5,
  success: 6,
  skipped: 7,
} as const satisfies Record<TaskState, number>

/** Returns the tasks in the order of the workflow, members of a group directly below it. */
const treeOrder = (view: TerminalRun): TerminalTask[] => {
  const below = (task: TerminalTask): TerminalTask[] => [
    task,
    ...groupMembers(view.workflow, task.node).flatMap((index) => below(view.tasks[index]!)),
  ]
  return view.tasks.filter(({ depth }) => depth === 0).flatMap(below)
}

/** Chooses the tasks for a view of this height, in the order of the workflow, and counts the hidden ones. */
export const visibleTasks = (view: TerminalRun, rows: number): { shown: TerminalTask[]; hidden: number } => {
  const known = treeOrder(view).filter((task) => !task.hook || task.ownStatus !== null)
  if (known.length <= rows) return { shown: known, hidden: 0 }
  const available = Math.max(0, rows - 1)
  const chosen = new Set(known.toSorted((a, b) => URGENCY[stateOf(a)] - URGENCY[stateOf(b)]).slice(0, available))
  return { shown: known.filter((task) => chosen.has(task)), hidden: known.length - available }
}

/** Returns the instance whose attempt, time and log line the task shows: the one that has run longest. */
export const longestRunning = (task: TerminalTask): LiveInstance | null => {
  let found: LiveInstance | null = null
  for (const instance of task.live.values()) {
    if (found === null || (instance.status === "running" && (found.status !== "running" || instance.since < found.since))) {
      found = instance
    }
  }
  return found
}

const progressBar = (done: number, total: number, width: number): string => {
  const filled = total === 0 ? width : Math.floor((Math.min(done, total) / total) * width)
  return "█".repeat(filled) + "░".repeat(width - filled)
}

const BAR_WIDTH = 10
/** Rows of the title, the totals and the cursor. */
const FIXED_ROWS = 3

export const frameLines = (frame: Frame): Span[][] => {
  const { view, height } = frame
  const noteRows = frame.note === null ? 0 : 1
  const { shown, hidden } = visibleTasks(view, Math.max(1, height - FIXED_ROWS - noteRows))
  const names = Math.max(4, ...shown.map((task) => 2 * task.depth + task.name.length))
  const nameWidth = Math.min(names, Math.max(8, Math.floor(frame.width * 0.4)))
  const lines: Span[][] = [titleLine(frame)]
  for (const task of shown) lines.push(taskLine(frame, task, nameWidth))
  if (hidden > 0) lines.push([[`  … ${hidden} more`, "dim"]])
  lines.push(totalsLine(frame))
  if (frame.note !== null) lines.push([[frame.note, "yellow"]])
  return lines
}

const titleLine = ({ view }: Frame): Span[] => {
  const [, style] = iconOf(view.status)
  return [[view.workflow.name, "bold"], "  ", [view.status, style], "  ", [view.runId, "dim"]]
}

const elapsed = (task: TerminalTask, now: number): string =>
  task.startedAt === null ? "" : duration((task.finishedAt ?? now) - task.startedAt)

const taskLine = (frame: Frame, task: TerminalTask, nameWidth: number): Span[] => {
  const state = stateOf(task)
  const indent = "  ".repeat(task.depth)
  const line: Span[] = [
    indent,
    iconOf(state),
    " ",
    padEnd(truncate(task.name, nameWidth - indent.length), nameWidth - indent.length),
  ]
  line.push(...counts(frame.view, task))
  const time = elapsed(task, frame.now)
  if (time !== "") line.push("  ", [time.padStart(6), "dim"])
  const live = longestRunning(task)
  const attempt = live?.attempt ?? task.attempt
  if (attempt > 1) line.push("  ", [`attempt ${attempt}`, "yellow"])
  return [...line, ...remark(frame, task, live)]
}

/** Formats the counts of a fan-out's instances, or of a group's items and tasks. */
const counts = (view: TerminalRun, task: TerminalTask): Span[] => {
  const ended = endedCount(task)
  const colour: Style = task.ended.failed > 0 ? "red" : "cyan"
  const items: Span[] =
    task.fanLevels > 0 && task.total !== null
      ? ["  ", [progressBar(ended, task.total, BAR_WIDTH), colour], ` ${ended}/${task.total}`]
      : []
  if (!task.group) return items
  const inside = countInside(view, task)
  if (inside.total === 0 || task.startedAt === null) return items
  if (items.length > 0) return [...items, [`, ${inside.ended}/${plural(inside.total, "task")}`, "dim"]]
  return [
    "  ",
    [progressBar(inside.ended, inside.total, BAR_WIDTH), colour],
    ` ${inside.ended}/${plural(inside.total, "task")}`,
  ]
}

/** Formats the end of a task's line: why it waits, its progress, its last log line, or its error. */
const remark = (frame: Frame, task: TerminalTask, live: ReturnType<typeof longestRunning>): Span[] => {
  if (live !== null && live.retryAt !== null) {
    return ["  ", [`retry in ${duration(live.retryAt - frame.now)}`, "yellow"]]
  }
  if (live !== null && live.waiting !== null) {
    return ["  ", [printable(waitingText(live.waiting)), live.waiting.kind === "approval" ? "yellow" : "dim"]]
  }
  const progress = live === null || live.progress === null ? "" : progressText(live.progress)
  if (progress !== "") return ["  ", [progress, "cyan"]]
  const last = live === null ? undefined : frame.lastLines.get(logKey(task.name, live.path))
  if (last !== undefined && last !== "") return ["  ", [printable(last), "dim"]]
  const error = task.error ?? task.failures.at(-1)?.error
  if (error !== undefined && error !== null && error !== "")
    return ["  ", [printable(error), task.ownStatus === "skipped" ? "dim" : "red"]]
  return []
}

/** Counts the known and the ended instances; an unexpanded fan-out counts as one. */
export const countTasks = (view: TerminalRun): { ended: number; total: number } => {
  let ended = 0
  let total = 0
  for (const task of view.tasks) {
    if (task.group || task.hook) continue
    const own = endedCount(task)
    const finished = task.ownStatus !== null && isTaskFinished(task.ownStatus)
    const all = task.total ?? (finished ? own : 1)
    total += Math.max(all, own)
    ended += own
  }
  return { ended, total }
}

const totalsLine = ({ view, now, width, timeLeftMs }: Frame): Span[] => {
  const { ended, total } = countTasks(view)
  const text = [`${ended}/${plural(total, "task")}`]
  if (view.startedAt !== null) text.push(duration((view.finishedAt ?? now) - view.startedAt))
  if (timeLeftMs !== null && timeLeftMs >= 1000) text.push(`about ${duration(Math.round(timeLeftMs / 1000) * 1000)} left`)
  const size = Math.max(5, Math.min(30, width - 40))
  return [[progressBar(ended, total, size), "green"], " ", text.join(" · ")]
}
