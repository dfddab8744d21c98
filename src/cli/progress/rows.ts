// From the model to the lines of the live view. Pure: model, size and time in, lines of spans out; screen.ts draws them.

import { progressText } from "./plain.ts"
import { endedCount, insideOf, type LiveInstance, type RunView, stateOf, type TaskState, type TaskView } from "./model.ts"
import { groupMembers } from "../../core/model/task-path.ts"
import { waitingText } from "../../core/model/waiting-on.ts"
import type { Span, Style } from "../terminal/style.ts"
import { cut, duration, padEnd, plural, printable } from "../terminal/text.ts"

export interface Frame {
  view: RunView
  now: number
  width: number
  height: number
  /** The last log line of running instances, by `logKey`. */
  lastLines: ReadonlyMap<string, string>
  timeLeftMs: number | null
  /** Said below the bar, such as what Ctrl-C does now. */
  note: string | null
}

export const logKey = (task: string, path: string): string => `${task}/${path}`

const ICONS = {
  pending: ["·", "dim"],
  waiting: ["↻", "yellow"],
  dispatched: ["◌", "blue"],
  running: ["●", "cyan"],
  success: ["✓", "green"],
  failed: ["✗", "red"],
  skipped: ["-", "dim"],
  cancelled: ["■", "yellow"],
} as const satisfies Record<TaskState, Span>

export const iconOf = (state: TaskState): readonly [string, Style] => ICONS[state]

/** Which tasks are shown first when there are more than rows. */
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

/** In the order of the workflow, what is in a group below it. */
const inTree = (view: RunView): TaskView[] => {
  const below = (task: TaskView): TaskView[] => [
    task,
    ...groupMembers(view.workflow, task.node).flatMap((index) => below(view.tasks[index]!)),
  ]
  return view.tasks.filter(({ depth }) => depth === 0).flatMap(below)
}

/** Tasks that a view of this height shows, in the order of the workflow, and how many are left out. */
export const visibleTasks = (view: RunView, rows: number): { shown: TaskView[]; hidden: number } => {
  const known = inTree(view).filter((task) => !task.hook || task.own !== null)
  if (known.length <= rows) return { shown: known, hidden: 0 }
  const room = Math.max(0, rows - 1)
  const chosen = new Set(known.toSorted((a, b) => URGENCY[stateOf(a)] - URGENCY[stateOf(b)]).slice(0, room))
  return { shown: known.filter((task) => chosen.has(task)), hidden: known.length - room }
}

/** The instance whose attempt, time and log line stand for the task: the one that has run longest. */
export const leader = (task: TaskView): LiveInstance | null => {
  let found: LiveInstance | null = null
  for (const instance of task.live.values()) {
    if (found === null || (instance.status === "running" && (found.status !== "running" || instance.since < found.since))) {
      found = instance
    }
  }
  return found
}

export const bar = (done: number, total: number, width: number): string => {
  const filled = total === 0 ? width : Math.floor((Math.min(done, total) / total) * width)
  return "█".repeat(filled) + "░".repeat(width - filled)
}

const BAR_WIDTH = 10
const HEAD_AND_FOOT = 3

export const frameLines = (frame: Frame): Span[][] => {
  const { view, height } = frame
  const foot = frame.note === null ? 0 : 1
  const { shown, hidden } = visibleTasks(view, Math.max(1, height - HEAD_AND_FOOT - foot))
  const names = Math.max(4, ...shown.map((task) => 2 * task.depth + task.name.length))
  const nameWidth = Math.min(names, Math.max(8, Math.floor(frame.width * 0.4)))
  const lines: Span[][] = [head(frame)]
  for (const task of shown) lines.push(taskLine(frame, task, nameWidth))
  if (hidden > 0) lines.push([[`  … ${hidden} more`, "dim"]])
  lines.push(overall(frame))
  if (frame.note !== null) lines.push([[frame.note, "yellow"]])
  return lines
}

const head = ({ view }: Frame): Span[] => {
  const [, style] = view.status === "pending" ? ICONS.pending : ICONS[view.status]
  return [[view.workflow.name, "bold"], "  ", [view.status, style], "  ", [view.runId, "dim"]]
}

const elapsed = (task: TaskView, now: number): string =>
  task.startedAt === null ? "" : duration((task.finishedAt ?? now) - task.startedAt)

const taskLine = (frame: Frame, task: TaskView, nameWidth: number): Span[] => {
  const state = stateOf(task)
  const indent = "  ".repeat(task.depth)
  const line: Span[] = [
    indent,
    iconOf(state),
    " ",
    padEnd(cut(task.name, nameWidth - indent.length), nameWidth - indent.length),
  ]
  line.push(...counts(frame.view, task))
  const time = elapsed(task, frame.now)
  if (time !== "") line.push("  ", [time.padStart(6), "dim"])
  const live = leader(task)
  const attempt = live?.attempt ?? task.attempt
  if (attempt > 1) line.push("  ", [`attempt ${attempt}`, "yellow"])
  return [...line, ...remark(frame, task, live)]
}

/** Of a fan-out its instances, of a group its items and the tasks inside. */
const counts = (view: RunView, task: TaskView): Span[] => {
  const ended = endedCount(task)
  const colour: Style = task.ended.failed > 0 ? "red" : "cyan"
  const items: Span[] =
    task.fans > 0 && task.total !== null ? ["  ", [bar(ended, task.total, BAR_WIDTH), colour], ` ${ended}/${task.total}`] : []
  if (!task.group) return items
  const inside = insideOf(view, task)
  if (inside.total === 0 || task.startedAt === null) return items
  if (items.length > 0) return [...items, [`, ${inside.ended}/${plural(inside.total, "task")}`, "dim"]]
  return ["  ", [bar(inside.ended, inside.total, BAR_WIDTH), colour], ` ${inside.ended}/${plural(inside.total, "task")}`]
}

/** The end of a task's line: why it waits, what it said last, or what went wrong. */
const remark = (frame: Frame, task: TaskView, live: ReturnType<typeof leader>): Span[] => {
  if (live !== null && live.retryAt !== null) {
    return ["  ", [`retry in ${duration(live.retryAt - frame.now)}`, "yellow"]]
  }
  if (live !== null && live.waiting !== null) {
    return ["  ", [printable(waitingText(live.waiting)), live.waiting.kind === "approval" ? "yellow" : "dim"]]
  }
  const far = live === null || live.progress === null ? "" : progressText(live.progress)
  if (far !== "") return ["  ", [far, "cyan"]]
  const last = live === null ? undefined : frame.lastLines.get(logKey(task.name, live.path))
  if (last !== undefined && last !== "") return ["  ", [printable(last), "dim"]]
  const error = task.error ?? task.failures.at(-1)?.error
  if (error !== undefined && error !== null && error !== "")
    return ["  ", [printable(error), task.own === "skipped" ? "dim" : "red"]]
  return []
}

/** Instances ended of those known; a task not yet expanded counts as one. */
export const progress = (view: RunView): { ended: number; total: number } => {
  let ended = 0
  let total = 0
  for (const task of view.tasks) {
    if (task.group || task.hook) continue
    const own = endedCount(task)
    const settled = task.own === "skipped" || task.own === "failed" || task.own === "cancelled" || task.own === "success"
    const all = task.total ?? (settled ? own : 1)
    total += Math.max(all, own)
    ended += own
  }
  return { ended, total }
}

const overall = ({ view, now, width, timeLeftMs }: Frame): Span[] => {
  const { ended, total } = progress(view)
  const text = [`${ended}/${plural(total, "task")}`]
  if (view.startedAt !== null) text.push(duration((view.finishedAt ?? now) - view.startedAt))
  if (timeLeftMs !== null && timeLeftMs >= 1000) text.push(`about ${duration(Math.round(timeLeftMs / 1000) * 1000)} left`)
  const size = Math.max(5, Math.min(30, width - 40))
  return [[bar(ended, total, size), "green"], " ", text.join(" · ")]
}
