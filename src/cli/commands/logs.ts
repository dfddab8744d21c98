// `ork logs RUN TASK`: prints the log of a task's latest attempt, or of the given attempt; with `-f` until the task finishes. Prints no
// escape sequences except colours.

import type { Context } from "../target/context.ts"
import { parseInstancePath, parseWholeNumber } from "../terminal/option-values.ts"
import { EscapeFilter } from "../terminal/escape-filter.ts"
import { print } from "../terminal/output.ts"
import { type ReaderFlags, withReader } from "../target/reader.ts"
import { omitUndefined } from "../../core/model/omit-undefined.ts"

export interface LogsOptions extends ReaderFlags {
  index?: string
  path?: string
  attempt?: string
  follow?: boolean
}

export const logs = (context: Context, runText: string, name: string, options: LogsOptions): Promise<number> => {
  const path = parseInstancePath(options)
  const attempt = parseWholeNumber("--attempt", options.attempt, 1)
  return withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    const request = omitUndefined({ runId: run.id, task: name, follow: options.follow === true, path, attempt })
    if (options.json === true) {
      for await (const { at, stream, line } of reader.logLines(request)) print(context, JSON.stringify({ at, stream, line }))
    } else {
      const filter = new EscapeFilter()
      for await (const bytes of reader.logBytes(request)) context.stdout.write(filter.add(bytes))
    }
    return 0
  })
}
