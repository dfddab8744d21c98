// `ork runs`: runs, newest first.

import type { Context } from "../backends.ts"
import { InputError } from "../errors.ts"
import { parseLimit } from "../numbers.ts"
import { print, printJson, printSpans } from "../output.ts"
import { iconOf } from "../progress/rows.ts"
import { type ReaderFlags, withReader } from "../reader.ts"
import type { Span } from "../style.ts"
import { duration, padEnd, table } from "../text.ts"
import { nearest } from "../../core/nearest.ts"
import { RUN_STATUSES, type RunStatus } from "../../core/status.ts"
import type { Run } from "../../protocol/client.ts"

export interface RunsOptions extends ReaderFlags {
  workflow?: string
  status?: string
  limit: string
  json?: boolean
}

export const runs = async (context: Context, options: RunsOptions): Promise<number> => {
  const status = parseStatus(options.status)
  const limit = parseLimit(options.limit)
  return withReader(context, options, async (reader) => {
    const rows = await reader.listRuns({
      limit,
      ...(options.workflow === undefined ? {} : { workflow: options.workflow }),
      ...(status === undefined ? {} : { status }),
    })
    if (options.json === true) printJson(context, rows)
    else if (rows.length === 0) print(context, "no runs")
    else printSpans(context, lines(rows, context.backends.clock.now()))
    return 0
  })
}

const parseStatus = (text: string | undefined): RunStatus | undefined => {
  if (text === undefined) return undefined
  const known = RUN_STATUSES.find((status) => status === text)
  if (known !== undefined) return known
  const near = nearest(text, RUN_STATUSES)
  throw new InputError(
    `--status: there is no status "${text}"${near === undefined ? `; there are ${RUN_STATUSES.join(", ")}` : `; did you mean ${near}?`}`,
  )
}

const lines = (rows: Run[], now: number): Span[][] => {
  const cells = rows.map((run) => {
    const started = run.started_at ?? run.created_at
    const end = run.finished_at === null ? now : Date.parse(run.finished_at)
    const total = Object.values(run.tasks).reduce((sum, count) => sum + count, 0)
    const done = total - run.tasks.pending - run.tasks.dispatched - run.tasks.running
    return [
      run.id,
      run.workflow,
      run.created_at.slice(0, 19).replace("T", " "),
      duration(end - Date.parse(started)),
      `${done}/${total}`,
    ]
  })
  const header = table([["run", "workflow", "created (UTC)", "took", "tasks"], ...cells])
  const width = Math.max(...rows.map((run) => run.status.length), 6)
  return header.map((line, i): Span[] => {
    const run = rows[i - 1]
    if (run === undefined) return [["  ", "dim"], [padEnd("status", width), "dim"], "  ", [line, "dim"]]
    const [icon, style] = iconOf(run.status)
    return [[icon, style], " ", [padEnd(run.status, width), style], "  ", line]
  })
}
