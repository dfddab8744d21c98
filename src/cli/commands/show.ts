// `ork show RUN`: shows a run and its tasks with their attempts.

import type { Context } from "../target/context.ts"
import { printJson, printSpans } from "../terminal/output.ts"
import { progressText, taskLabel } from "../progress/event-text.ts"
import { iconOf } from "../progress/icons.ts"
import { type ReaderFlags, withReader } from "../target/reader.ts"
import type { Span } from "../terminal/style.ts"
import { bytes, duration, padEnd, printable } from "../terminal/text.ts"
import { TASK_STATUSES } from "../../core/model/status.ts"
import { waitingText } from "../../core/model/waiting-on.ts"
import type { Progress } from "../../store/contract/store.ts"
import { type Run, collect, type Task } from "../../protocol/client/client.ts"

/** Tasks shown without --json. */
const MAX_SHOWN = 1000

export const show = (context: Context, runText: string, options: ReaderFlags): Promise<number> =>
  withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    if (options.json === true) {
      printJson(context, { ...run, task_list: await collect(reader.tasks(run)) })
      return 0
    }
    const now = context.backends.clock.now()
    printSpans(context, runLines(run, now))
    let shown = 0
    for await (const task of reader.tasks(run)) {
      if (shown++ === MAX_SHOWN) {
        printSpans(context, [[["  … more; see them all with --json", "dim"]]])
        break
      }
      printSpans(context, taskLines(task, now))
    }
    return 0
  })

const runLines = (run: Run, now: number): Span[][] => {
  const [icon, style] = iconOf(run.status)
  const end = run.finished_at === null ? now : Date.parse(run.finished_at)
  const took =
    run.started_at === null
      ? "not started"
      : `${run.finished_at === null ? "for" : "in"} ${duration(end - Date.parse(run.started_at))}`
  const counts = TASK_STATUSES.filter((status) => run.tasks[status] > 0).map((status) => `${run.tasks[status]} ${status}`)
  const lines: Span[][] = [
    [[icon, style], " ", [run.workflow, "bold"], ` version ${run.version} `, [run.status, style], ` ${took}`],
    ["  run      ", run.id],
    ["  created  ", run.created_at, ` by ${run.trigger}`],
    ["  tasks    ", counts.join(", ")],
  ]
  if (Object.keys(run.params).length > 0) lines.push(["  params   ", JSON.stringify(run.params)])
  if (run.parent !== null) lines.push(["  parent   ", run.parent.task, " of run ", run.parent.run_id])
  if (run.error !== null) lines.push(["  error    ", [printable(run.error), "red"]])
  return [...lines, []]
}

const elapsed = (from: string | null, to: string | null, now: number): string =>
  from === null ? "" : duration((to === null ? now : Date.parse(to)) - Date.parse(from))

const NAME_WIDTH = 24

const taskLines = (task: Task, now: number): Span[][] => {
  const state = task.status === "pending" && task.available_at !== null && task.attempt > 0 ? "waiting" : task.status
  const line: Span[] = [iconOf(state), " ", padEnd(taskLabel(task.name, task.path), NAME_WIDTH), " ", padEnd(state, 10)]
  line.push(padEnd(elapsed(task.started_at, task.finished_at, now), 8))
  if (task.attempt > 1) line.push([`attempt ${task.attempt}  `, "yellow"])
  if (task.usage?.max_rss_bytes != null) line.push([`${bytes(task.usage.max_rss_bytes)}  `, "dim"])
  if (task.waiting !== null) {
    line.push([printable(waitingText(task.waiting)), task.waiting.kind === "approval" ? "yellow" : "dim"])
  } else if (task.progress !== null && task.finished_at === null) {
    line.push([`${progressText(task.progress as Progress)}  `, "cyan"])
  }
  if (task.error !== null) line.push([printable(task.error), "red"])
  const past = task.attempts.slice(0, -1)
  return [
    line,
    ...past.map((each): Span[] => [
      ["    ", "dim"],
      [
        `attempt ${each.attempt} ${each.status} ${elapsed(each.started_at, each.finished_at, now)} ${printable(each.error ?? "")}`,
        "dim",
      ],
    ]),
  ]
}
