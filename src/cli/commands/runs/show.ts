// `ork show RUN`: shows a run: failed instances first, then every task in the order of the graph, with fan-outs as one line.

import type { Context } from "../../target/context.ts"
import { shortBytes } from "../../../core/values/quantities.ts"
import { printJson, printSpans } from "../../terminal/output.ts"
import { progressText, taskLabel } from "../../progress/event-text.ts"
import { iconOf } from "../../progress/icons.ts"
import { type ReaderFlags, type RunReader, withReader } from "../../target/reader.ts"
import type { Span } from "../../terminal/style.ts"
import { duration, padEnd, plural, printable, textWidth } from "../../terminal/text.ts"
import { localZone, zonedText } from "../../terminal/times.ts"
import { TASK_STATUSES } from "../../../core/model/status.ts"
import { waitingText } from "../../../core/model/waiting-on.ts"
import type { Progress } from "../../../store/contract/store.ts"
import { type Run, type RunGraph, collect, type Task } from "../../../protocol/client/client.ts"

/** Instances that are read. */
const MAX_READ = 1000
/** Failed instances that are listed first. */
const MAX_FAILURES = 20

export interface ShowOptions extends ReaderFlags {
  instances?: boolean
}

export const show = (context: Context, runText: string, options: ShowOptions): Promise<number> =>
  withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    if (options.json === true) printJson(context, { ...run, task_list: await collect(reader.tasks(run)) })
    else printSpans(context, await lines(context, reader, run, options.instances === true))
    return 0
  })

const lines = async (context: Context, reader: RunReader, run: Run, instances: boolean): Promise<Span[][]> => {
  const now = context.backends.clock.now()
  const [graph, tasks] = await Promise.all([reader.graph(run), collect(reader.tasks(run), MAX_READ)])
  const byName = Map.groupBy(tasks, ({ name }) => name)
  const width = Math.max(NAME_WIDTH, ...graph.tasks.map(({ name }) => textWidth(name)))
  const layout = { now, width }
  const inOrder = graph.tasks.flatMap((node) => {
    const rows = byName.get(node.name) ?? []
    const isOne = rows.length === 1 && rows[0]!.path === ""
    return isOne || instances ? rows.flatMap((task) => taskLines(task, layout)) : nodeLines(node, layout)
  })
  const unread = instances && tasks.length === MAX_READ ? [[["  … more; see them all with --json", "dim"] as const]] : []
  const failures = instances ? [] : failureLines(tasks, run, layout)
  return [...runLines(context, run, now), ...failures, ...inOrder, ...unread]
}

const runLines = (context: Context, run: Run, now: number): Span[][] => {
  const [icon, style] = iconOf(run.status)
  const zone = localZone(context)
  const end = run.finished_at === null ? now : Date.parse(run.finished_at)
  const took =
    run.started_at === null
      ? "not started"
      : `${run.finished_at === null ? "for" : "in"} ${duration(end - Date.parse(run.started_at))}`
  const counts = TASK_STATUSES.filter((status) => run.tasks[status] > 0).map((status) => `${run.tasks[status]} ${status}`)
  const by = run.created_by === null ? "" : `, ${printable(run.created_by)}`
  const lines: Span[][] = [
    [
      [icon, style],
      " ",
      [`${run.workflow}#${run.number}`, "bold"],
      ` version ${run.version} `,
      [run.status, style],
      ` ${took}`,
    ],
    ["  run      ", run.id],
    ["  created  ", zonedText(run.created_at, zone), ` by ${run.trigger}${by}`],
    ["  tasks    ", counts.join(", ")],
  ]
  if (run.logical_date !== null) lines.push(["  date     ", zonedText(run.logical_date, zone)])
  if (Object.keys(run.params).length > 0) lines.push(["  params   ", JSON.stringify(run.params)])
  lines.push(...causeLines(run.cause))
  if (run.parent !== null) lines.push(["  parent   ", run.parent.task, " of run ", run.parent.run_id])
  if (run.error !== null) lines.push(["  error    ", [printable(run.error), "red"]])
  return [...lines, []]
}

const causeLines = (cause: Run["cause"]): Span[][] => {
  if (cause === null) return []
  if ("path" in cause) return [["  path     ", printable(cause.path)]]
  return cause.runs.map(({ id, workflow }) => ["  after    ", workflow, " run ", id])
}

interface Layout {
  now: number
  /** Width of the column of names. */
  width: number
}

/** Lists the failed instances, and how to see the log of the first one. */
const failureLines = (tasks: readonly Task[], run: Run, layout: Layout): Span[][] => {
  const failed = tasks.filter(({ status }) => status === "failed")
  if (failed.length === 0) return []
  const more = run.tasks.failed - Math.min(failed.length, MAX_FAILURES)
  const { name, path } = failed[0]!
  return [
    ...failed.slice(0, MAX_FAILURES).flatMap((task) => taskLines(task, layout)),
    ...(more > 0 ? [[[`  and ${more} more failed; see them with --instances`, "dim"] as const]] : []),
    [[`  log: ork logs ${run.id} ${name}${path === "" ? "" : ` --path ${path}`}`, "dim"]],
    [],
  ]
}

const elapsed = (from: string | null, to: string | null, now: number): string =>
  from === null ? "" : duration((to === null ? now : Date.parse(to)) - Date.parse(from))

const NAME_WIDTH = 24

/** Returns a task with all of its instances as one line. */
const nodeLines = (node: RunGraph["tasks"][number], { now, width }: Layout): Span[][] => {
  const counts = TASK_STATUSES.filter((status) => node.counts[status] > 0)
  const total = counts.reduce((sum, status) => sum + node.counts[status], 0)
  const line: Span[] = [iconOf(node.status), " ", padEnd(node.name, width), " ", padEnd(node.status, 10)]
  line.push(padEnd(elapsed(node.started_at, node.finished_at, now), 8))
  if (node.fan_out !== null && total > 0) {
    const parts = counts.map((status) => `${node.counts[status]} ${status}`)
    line.push([`${plural(total, "instance")}${parts.length > 1 ? `: ${parts.join(", ")}` : ""}`, "dim"])
  }
  return [line]
}

const taskLines = (task: Task, { now, width }: Layout): Span[][] => {
  const state = task.status === "pending" && task.available_at !== null && task.attempt > 0 ? "waiting" : task.status
  const line: Span[] = [iconOf(state), " ", padEnd(taskLabel(task.name, task.path, task.label), width), " ", padEnd(state, 10)]
  line.push(padEnd(elapsed(task.started_at, task.finished_at, now), 8))
  if (task.attempt > 1) line.push([`attempt ${task.attempt}  `, "yellow"])
  if (task.usage?.max_rss_bytes != null) line.push([`${shortBytes(task.usage.max_rss_bytes)}  `, "dim"])
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
