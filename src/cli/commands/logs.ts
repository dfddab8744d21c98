// `ork logs RUN TASK`: what a task wrote, the latest attempt unless another is asked for; with `-f` until it ends.

import type { Context } from "../target/backends.ts"
import { InputError } from "../terminal/errors.ts"
import { wholeNumber } from "../terminal/numbers.ts"
import { print } from "../terminal/output.ts"
import { type ReaderFlags, withReader } from "../target/reader.ts"

export interface LogsOptions extends ReaderFlags {
  index?: string
  path?: string
  attempt?: string
  follow?: boolean
  json?: boolean
}

export const logs = (context: Context, runText: string, name: string, options: LogsOptions): Promise<number> => {
  const path = instancePathOf(options)
  const attempt = wholeNumber("--attempt", options.attempt, 1)
  return withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    const request = {
      runId: run.id,
      task: name,
      follow: options.follow === true,
      ...(path !== undefined && { path }),
      ...(attempt !== undefined && { attempt }),
    }
    if (options.json === true) {
      for await (const { at, stream, line } of reader.logLines(request)) print(context, JSON.stringify({ at, stream, line }))
    } else for await (const bytes of reader.logBytes(request)) context.stdout.write(bytes)
    return 0
  })
}

/** `--index N` or `--path 1.2`; undefined: neither. */
export const instancePathOf = (options: { index?: string; path?: string }): string | undefined => {
  if (options.path !== undefined) {
    if (!/^\d+(\.\d+)*$/.test(options.path)) throw new InputError(`--path: "${options.path}" is not a path such as 3 or 1.2`)
    return options.path
  }
  const index = wholeNumber("--index", options.index, 0)
  return index === undefined ? undefined : String(index)
}
