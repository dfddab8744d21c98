// `ork logs RUN [TASK]`: prints the log of a task's latest attempt, or of the given attempt; without a task, the logs of all tasks, each
// line with its task in front. With `-f` until the task or the run finishes. Prints no escape sequences except colours.

import type { Context } from "../../target/context.ts"
import { parseTask, parseWholeNumber } from "../../terminal/option-values.ts"
import { InputError } from "../../terminal/errors.ts"
import { EscapeFilter } from "../../terminal/escape-filter.ts"
import { print } from "../../terminal/output.ts"
import { type LogLine, type LogRequest, type ReaderFlags, type RunReader, withReader } from "../../target/reader.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"

export interface LogsOptions extends ReaderFlags {
  index?: string
  path?: string
  attempt?: string
  lines?: string
  follow?: boolean
}

export const logs = (context: Context, runText: string, name: string | undefined, options: LogsOptions): Promise<number> => {
  const reference = parseTask(name ?? "", options)
  const attempt = parseWholeNumber("--attempt", options.attempt, 1)
  const count = parseWholeNumber("--lines", options.lines, 1)
  const follow = options.follow === true
  if (name === undefined && (reference.path !== undefined || attempt !== undefined)) {
    throw new InputError("--index, --path and --attempt select the log of a task; name it after the run")
  }
  return withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    if (name === undefined) {
      const { printAllLogs } = await import("./all-logs.ts")
      await printAllLogs(context, reader, run, { follow, count, json: options.json === true })
      return 0
    }
    const { task, label, path = label === undefined ? undefined : await reader.pathOf(run, task, label) } = reference
    const request = omitUndefined({ runId: run.id, task, follow, path, attempt })
    const filter = new EscapeFilter()
    if (options.json === true) {
      for await (const { at, stream, line } of lastLines(reader, request, count)) {
        print(context, JSON.stringify({ at, stream, line }))
      }
    } else if (count !== undefined) {
      for await (const { line } of lastLines(reader, request, count)) context.stdout.write(filter.add(Buffer.from(`${line}\n`)))
    } else {
      for await (const bytes of reader.logBytes(request)) context.stdout.write(filter.add(bytes))
    }
    return 0
  })
}

/** Yields the last `count` lines, or all, and then the lines that follow if the request follows the log. */
export async function* lastLines(reader: RunReader, request: LogRequest, count: number | undefined): AsyncGenerator<LogLine> {
  if (count === undefined) {
    yield* reader.logLines(request)
    return
  }
  const last: LogLine[] = []
  let total = 0
  for await (const line of reader.logLines({ ...request, follow: false })) {
    total += 1
    last.push(line)
    if (last.length > count) last.shift()
  }
  yield* last
  if (!request.follow) return
  let skipped = 0
  for await (const line of reader.logLines(request)) if (++skipped > total) yield line
}
