// `ork runs`: lists runs, newest first.

import type { Context } from "../../target/context.ts"
import { parseChoice, parseInstant, parseLimit } from "../../terminal/option-values.ts"
import { localTimes } from "../../terminal/times.ts"
import { print, printJson, printSpans } from "../../terminal/output.ts"
import { iconOf } from "../../progress/icons.ts"
import { type ReaderFlags, type RunFilter, withReader } from "../../target/reader.ts"
import type { Span } from "../../terminal/style.ts"
import { duration, padEnd, table } from "../../terminal/text.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { RUN_STATUSES } from "../../../core/model/status.ts"
import type { Run } from "../../../protocol/client/client.ts"
import { TRIGGERS } from "../../../store/contract/store.ts"

export interface RunsOptions extends ReaderFlags {
  workflow?: string
  status?: string
  trigger?: string
  createdAfter?: string
  createdBefore?: string
  limit: string
}

export const runs = async (context: Context, options: RunsOptions): Promise<number> => {
  const { workflow, status, trigger, createdAfter, createdBefore } = options
  const filter: RunFilter = omitUndefined({
    limit: parseLimit(options.limit),
    workflow,
    status: parseChoice("--status", status, RUN_STATUSES),
    trigger: parseChoice("--trigger", trigger, TRIGGERS),
    createdAfter: parseInstant("--created-after", createdAfter),
    createdBefore: parseInstant("--created-before", createdBefore),
  })
  return withReader(context, options, async (reader) => {
    const rows = await reader.listRuns(filter)
    if (options.json === true) printJson(context, rows)
    else if (rows.length === 0) print(context, "no runs")
    else printSpans(context, runLines(context, rows, context.backends.clock.now()))
    return 0
  })
}

const runLines = (context: Context, rows: Run[], now: number): Span[][] => {
  const times = localTimes(context, now)
  const cells = rows.map((run) => {
    const started = run.started_at ?? run.created_at
    const end = run.finished_at === null ? now : Date.parse(run.finished_at)
    const total = Object.values(run.tasks).reduce((sum, count) => sum + count, 0)
    const finished = total - run.tasks.pending - run.tasks.dispatched - run.tasks.running
    return [
      run.id,
      `${run.workflow}#${run.number}`,
      run.trigger,
      times.text(run.logical_date),
      times.text(run.created_at),
      duration(end - Date.parse(started)),
      `${finished}/${total}`,
    ]
  })
  const titles = ["run", "workflow", "trigger", "logical date", times.header("created"), "took", "tasks"]
  const header = table([titles, ...cells])
  const width = Math.max(...rows.map((run) => run.status.length), 6)
  return header.map((line, i): Span[] => {
    const run = rows[i - 1]
    if (run === undefined) return [["  ", "dim"], [padEnd("status", width), "dim"], "  ", [line, "dim"]]
    const [icon, style] = iconOf(run.status)
    return [[icon, style], " ", [padEnd(run.status, width), style], "  ", line]
  })
}
