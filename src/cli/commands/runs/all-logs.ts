// The logs of all tasks of a run: in the order of the graph, or, while the run is followed, as the lines arrive.

import { setTimeout } from "node:timers/promises"
import { lastLines } from "./logs.ts"
import type { Context } from "../../target/context.ts"
import { type RunReader, tasksInOrder } from "../../target/reader.ts"
import { taskLabel } from "../../progress/event-text.ts"
import { EscapeFilter } from "../../terminal/escape-filter.ts"
import { print } from "../../terminal/output.ts"
import { padEnd, textWidth } from "../../terminal/text.ts"
import { isRunClosed, isTaskFinished } from "../../../core/model/status.ts"
import { collect, type Run, type Task } from "../../../protocol/client/client.ts"

export interface AllLogsOptions {
  follow: boolean
  /** Last lines of each log; undefined: all. */
  count: number | undefined
  json: boolean
}

const MAX_FOLLOWED = 50
const POLL_MS = 500
const MAX_WIDTH = 30

export const printAllLogs = async (context: Context, reader: RunReader, run: Run, options: AllLogsOptions): Promise<void> => {
  const graph = await reader.graph(run)
  const width = Math.min(MAX_WIDTH, Math.max(...graph.tasks.map(({ name }) => textWidth(name))))
  const printer = new LogPrinter(context, reader, { ...options, width })
  if (options.follow) return await followAll(reader, run, printer)
  for (const task of await tasksInOrder(reader, run, graph)) if (task.attempt > 0) await printer.print(task, false)
}

/** Prints the log of each attempt as soon as the attempt begins, until the run and its hooks have finished. */
const followAll = async (reader: RunReader, run: Run, printer: LogPrinter): Promise<void> => {
  const begun = new Set<string>()
  const open = new Set<Promise<void>>()
  for (;;) {
    const { status } = await reader.findRun(run.id)
    const tasks = await collect(reader.tasks(run))
    for (const task of tasks) {
      const key = `${task.id}/${task.attempt}`
      if (task.attempt === 0 || begun.has(key) || open.size >= MAX_FOLLOWED) continue
      begun.add(key)
      const printed = printer.print(task, true).finally(() => open.delete(printed))
      open.add(printed)
    }
    const finished = isRunClosed(status) && tasks.every((task) => isTaskFinished(task.status))
    if (finished && open.size === 0 && tasks.every((task) => task.attempt === 0 || begun.has(`${task.id}/${task.attempt}`)))
      return
    await Promise.race([setTimeout(POLL_MS), ...(finished ? open : [])])
  }
}

class LogPrinter {
  readonly #context: Context
  readonly #reader: RunReader
  readonly #options: AllLogsOptions & { width: number }

  constructor(context: Context, reader: RunReader, options: AllLogsOptions & { width: number }) {
    this.#context = context
    this.#reader = reader
    this.#options = options
  }

  async print({ run_id, name, path, label, attempt }: Task, follow: boolean): Promise<void> {
    const { count, json, width } = this.#options
    const filter = new EscapeFilter()
    const prefix = `${padEnd(taskLabel(name, path, label), width)} | `
    const request = { runId: run_id, task: name, attempt, follow, ...(path !== "" && { path }) }
    for await (const { at, stream, line } of lastLines(this.#reader, request, count)) {
      if (json) print(this.#context, JSON.stringify({ task: name, path, at, stream, line }))
      else this.#context.stdout.write(filter.add(Buffer.from(`${prefix}${line}\n`)))
    }
  }
}
